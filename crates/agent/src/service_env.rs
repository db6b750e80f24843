//! The variables that tell a container of services: of those of its namespace unless it does not want them, and
//! always of the API itself.

use meta::ObjectExt;
use serde_json::Value;

use crate::env::Environment;

/// Most services that a container is told of: each costs about a kilobyte of its environment.
const SERVICES_MAX: usize = 5_000;

/// The variables for `pod`.
pub fn variables(pod: &Value, services: &[Value]) -> Environment {
    let wants_links = pod.at(&["spec", "enableServiceLinks"]).and_then(Value::as_bool).unwrap_or(true);
    let is_api = |service: &Value| service.namespace() == "default" && service.name() == "kubernetes";
    let told = |service: &&Value| is_api(service) || (wants_links && service.namespace() == pod.namespace());
    let has_address = |service: &&Value| !matches!(service.text(&["spec", "clusterIP"]), "" | "None");
    let mut variables = Environment::new();
    for service in services.iter().filter(told).filter(has_address).take(SERVICES_MAX) {
        add(service, &mut variables);
    }
    variables
}

fn add(service: &Value, variables: &mut Environment) {
    let name = upper(service.name());
    let host = service.text(&["spec", "clusterIP"]);
    let ports = service.items(&["spec", "ports"]);
    let number = |port: &Value| port.int(&["port"]).unwrap_or(0).to_string();
    let mut put = |suffix: String, value: String| variables.insert(format!("{name}_{suffix}"), value);
    put("SERVICE_HOST".to_owned(), host.to_owned());
    if let Some(first) = ports.first() {
        put("SERVICE_PORT".to_owned(), number(first));
    }
    for port in ports.iter().filter(|port| !port.text(&["name"]).is_empty()) {
        put(format!("SERVICE_PORT_{}", upper(port.text(&["name"]))), number(port));
    }
    for (at, port) in ports.iter().enumerate() {
        let protocol = match port.text(&["protocol"]) {
            "" => "TCP",
            protocol => protocol,
        };
        let shown_host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let url = format!("{}://{shown_host}:{}", protocol.to_lowercase(), number(port));
        if at == 0 {
            put("PORT".to_owned(), url.clone());
        }
        let prefix = format!("PORT_{}_{}", number(port), protocol.to_uppercase());
        put(format!("{prefix}_PROTO"), protocol.to_lowercase());
        put(format!("{prefix}_PORT"), number(port));
        put(format!("{prefix}_ADDR"), host.to_owned());
        put(prefix, url);
    }
}

fn upper(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn links() {
        let service = |namespace: &str, name: &str, ip: &str| {
            json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"clusterIP": ip, "ports": [
                {"name": "http", "port": 80}]}})
        };
        let services = [
            service("default", "kubernetes", "10.96.0.1"),
            service("d", "my-db", "10.96.0.7"),
            service("d", "headless", "None"),
            service("e", "far", "10.96.0.8"),
        ];
        let pod = json!({"metadata": {"namespace": "d"}});
        let found = variables(&pod, &services);
        let value = |name: &str| found.get(name).map(String::as_str);
        assert_eq!(value("KUBERNETES_SERVICE_HOST"), Some("10.96.0.1"));
        assert_eq!(value("MY_DB_SERVICE_PORT_HTTP"), Some("80"));
        assert_eq!(value("MY_DB_PORT"), Some("tcp://10.96.0.7:80"));
        assert_eq!(value("MY_DB_PORT_80_TCP_ADDR"), Some("10.96.0.7"));
        assert_eq!((value("HEADLESS_SERVICE_HOST"), value("FAR_SERVICE_HOST")), (None, None));
        let alone = json!({"metadata": {"namespace": "d"}, "spec": {"enableServiceLinks": false}});
        assert_eq!(variables(&alone, &services).keys().filter(|key| key.starts_with("MY_DB")).count(), 0);
    }
}
