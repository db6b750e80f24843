//! The words of the Kubernetes API that every floor shares: kinds, names, labels, selectors, quantities,
//! field paths, errors and access to an object's metadata. Pure values; nothing here knows a particular kind.

pub mod condition;
pub mod duration;
pub mod field_error;
pub mod fields;
pub mod gvk;
pub mod int_or_string;
mod label_text;
pub mod labels;
pub mod name;
pub mod object;
pub mod path;
pub mod quantity;
mod quantity_text;
mod small_map;
pub mod status;
pub mod stored;

pub use field_error::{FieldError, FieldErrorKind};
pub use gvk::{GroupKind, GroupResource, GroupVersion, Gvk, Gvr};
pub use object::ObjectExt;
pub use path::FieldPath;
pub use quantity::Quantity;
pub use small_map::SmallMap;
pub use status::{ApiError, Reason};
pub use stdx::Time;
