//! Volumes, claims and classes of their attributes.

use serde_json::{Value, json};

use super::Draft;

impl Draft {
    fn volume(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": format!("{}Gi", self.dice.between(1, 3))}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "by-hand",
                "hostPath": {"path": format!("/data/{name}")},
            },
        })
    }

    /// Volumes made by hand, in which claims find room or not.
    pub(super) fn volumes(&self, count: u64) {
        for index in 0..count {
            let (name, at) = (format!("pv-{index}"), self.time(500) / 2);
            let body = self.volume(&name);
            self.create(at, "/api/v1/persistentvolumes", &body);
            self.deletion(&format!("/api/v1/persistentvolumes/{name}"), at, 20, &body);
        }
    }

    /// Claims, some of which pods use.
    pub(super) fn claims(&self, namespace: &str) {
        self.volumes(self.dice.between(1, 4));
        let all = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        for index in 0..self.dice.between(1, 4) {
            let (name, at) = (format!("data-{index}"), self.time(500) / 2);
            let body = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
                    "resources": {"requests": {"storage": format!("{}Gi", self.dice.between(1, 2))}},
                },
            });
            self.create(at, &all, &body);
            self.deletion(&format!("{all}/{name}"), at, 40, &body);
            if self.dice.percent(50) {
                let pod = json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("user-{index}")},
                    "spec": {
                        "containers": [{"name": "c", "image": self.image()}], "terminationGracePeriodSeconds": 2,
                        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
                    },
                });
                let pods = format!("/api/v1/namespaces/{namespace}/pods");
                self.create(self.time(at), &pods, &pod);
                self.request(self.end_ms - 1, "DELETE", format!("{pods}/user-{index}"), Value::Null);
            }
        }
        if self.dice.percent(40) {
            let classes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
            let body = json!({
                "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": "fast"},
                "driverName": "sim.setpoint.dev", "parameters": {"iops": "1"},
            });
            let at = self.time(500) / 2;
            self.create(at, classes, &body);
            self.deletion(&format!("{classes}/fast"), at, 60, &body);
        }
    }
}
