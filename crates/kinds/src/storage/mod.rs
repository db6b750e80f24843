//! The group `storage.k8s.io`.

pub mod csi_driver;
pub mod csi_node;
pub mod csi_storage_capacity;
pub mod storage_class;
pub mod volume_attachment;
pub mod volume_attributes_class;

pub(crate) const GROUP: &str = "storage.k8s.io";

use crate::check::{At, Faults};
use meta::FieldError;

/// Upstream's limits on the parameters of a class.
const PARAMETERS_MAX: usize = 512;
const PARAMETERS_BYTES_MAX: usize = 256 * 1024;

/// Parameters of a class: opaque, but bounded.
fn check_parameters(parameters: &At, allow_empty: bool, faults: &mut Faults) {
    let entries = parameters.value.as_object().map_or(0, serde_json::Map::len);
    if entries > PARAMETERS_MAX {
        faults.push(FieldError::too_long(parameters.path, PARAMETERS_MAX));
        return;
    }
    let mut bytes = 0;
    for (key, value) in parameters.entries() {
        if key.is_empty() {
            faults.push(parameters.invalid_as(key, "field can not be empty."));
        }
        bytes += key.len() + value.text().len();
    }
    if bytes > PARAMETERS_BYTES_MAX {
        faults.push(FieldError::too_long(parameters.path, PARAMETERS_BYTES_MAX));
    }
    if !allow_empty && entries == 0 {
        faults.push(parameters.required("must contain at least one key/value pair"));
    }
}
