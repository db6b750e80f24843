//! What the server chooses for a Service: address families, cluster address, node ports.
//!
//! There is no allocator with a state of its own: what is taken is what the Services of the snapshot have, and the
//! transaction that takes more holds only while none of them changes.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use kinds::{KindDef, service};
use meta::{ApiError, FieldError, ObjectExt};
use serde_json::{Value, json};
use store::{Entry, Key, Precondition};

use crate::{Request, Verb, World};

const SERVICES: &str = "core/services";
const RANGES: &str = "networking.k8s.io/servicecidrs";
/// The range of a server that declares none.
const RANGE_DEFAULT: &str = "10.96.0.0/12";
/// Upstream's default range.
const NODE_PORTS: RangeInclusive<i64> = 30_000..=32_767;
/// Addresses at a range's start that are chosen last, so that people may choose them (upstream's rule: a sixteenth of
/// the range, within these).
const RESERVED: RangeInclusive<u32> = 16..=256;

/// Whether the server may choose values of the object among those that no other has taken. Such requests succeed sooner one
/// after the other.
pub fn is_choosing(request: &Request) -> bool {
    let writes = matches!(request.verb, Verb::Create | Verb::Update | Verb::Patch);
    writes && request.target.subresource.is_empty() && is_service(&request.target.kind)
}

fn is_service(kind: &KindDef) -> bool {
    kind.kind == "Service" && kind.group.is_empty()
}

/// Fills in what the Service at hand leaves to the server and checks what it asks for. The precondition, where there
/// is one, must hold when the Service is written: others may have taken the same values.
pub(crate) fn allocate(
    world: World<'_>,
    kind: &KindDef,
    old: Option<&Value>,
    new: &mut Value,
) -> Result<Option<Precondition>, ApiError> {
    if !is_service(kind) {
        return Ok(None);
    }
    let had = old.map(Taken::of).unwrap_or_default();
    let mut pool = Pool { world, had, taken: None };
    let mut errors = settle_families(new);
    if service::needs_cluster_ip(new) && !service::is_headless(new) {
        errors.extend(pool.address(new)?);
    }
    if service::needs_node_port(new) || service::needs_health_check_port(new) {
        errors.extend(pool.ports(new)?);
    }
    if !errors.is_empty() {
        return Err(ApiError::invalid(&kind.group_kind(), new.name(), &errors));
    }
    let revision = world.snapshot.revision();
    Ok(pool.taken.map(|_| Precondition::UnchangedSince { prefix: Key::new(SERVICES, ""), revision }))
}

/// This server has addresses of one family, IPv4.
fn settle_families(new: &mut Value) -> Vec<FieldError> {
    if !service::needs_cluster_ip(new) {
        return Vec::new();
    }
    let policy = new.text(&["spec", "ipFamilyPolicy"]).to_owned();
    let mut families: Vec<Value> = new.items(&["spec", "ipFamilies"]).to_vec();
    if service::is_headless(new) && new.map(&["spec", "selector"]).is_none_or(serde_json::Map::is_empty) {
        // Whoever fills in the endpoints by hand may use any family.
        let policy = if policy.is_empty() { "RequireDualStack".to_owned() } else { policy };
        if families.is_empty() {
            families.push(json!("IPv4"));
        }
        if let ([only], false) = (&families[..], policy == "SingleStack") {
            let other = if only == "IPv4" { "IPv6" } else { "IPv4" };
            families.push(json!(other));
        }
        new.put(&["spec", "ipFamilyPolicy"], policy);
        new.put(&["spec", "ipFamilies"], families);
        return Vec::new();
    }
    let mut errors = Vec::new();
    let is_dual = families.len() > 1 || new.items(&["spec", "clusterIPs"]).len() > 1;
    if policy == "RequireDualStack" || (policy.is_empty() && is_dual) {
        let why = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", "RequireDualStack", why));
    }
    for (at, family) in families.iter().enumerate().filter(|(_, family)| *family == "IPv6") {
        let path = format!("spec.ipFamilies[{at}]");
        errors.push(FieldError::invalid(path, family.clone(), "not configured on this cluster"));
    }
    if policy.is_empty() {
        new.put(&["spec", "ipFamilyPolicy"], "SingleStack");
    }
    if families.is_empty() {
        new.put(&["spec", "ipFamilies"], json!(["IPv4"]));
    }
    errors
}

/// What one Service holds.
#[derive(Default)]
struct Taken {
    addresses: BTreeSet<Ipv4Addr>,
    ports: BTreeSet<i64>,
}

impl Taken {
    fn of(service: &Value) -> Taken {
        let addresses = service.items(&["spec", "clusterIPs"]).iter().filter_map(|ip| ip.as_str()?.parse().ok());
        let ports = service.items(&["spec", "ports"]).iter().filter_map(|port| port.int(&["nodePort"]));
        let health = service.int(&["spec", "healthCheckNodePort"]);
        Taken { addresses: addresses.collect(), ports: ports.chain(health).filter(|port| *port != 0).collect() }
    }

    /// The same of a stored Service, read once.
    fn of_entry(entry: &Entry) -> std::sync::Arc<Taken> {
        entry.memo(|bytes| Taken::of(&serde_json::from_slice(bytes).unwrap_or_default()))
    }
}

/// The values of all Services.
struct Pool<'w> {
    world: World<'w>,
    /// What the Service at hand had before: that it may keep.
    had: Taken,
    /// What others hold; read when first needed.
    taken: Option<Taken>,
}

impl Pool<'_> {
    fn taken(&mut self) -> &mut Taken {
        let (world, had) = (self.world, &self.had);
        self.taken.get_or_insert_with(|| {
            let mut all = Taken::default();
            for (_, entry) in world.snapshot.items(SERVICES) {
                let one = Taken::of_entry(entry);
                all.addresses.extend(one.addresses.difference(&had.addresses));
                all.ports.extend(one.ports.difference(&had.ports));
            }
            all
        })
    }

    fn address(&mut self, new: &mut Value) -> Result<Option<FieldError>, ApiError> {
        let asked = new.text(&["spec", "clusterIP"]).to_owned();
        if asked.is_empty() {
            let address = self.free_address()?.to_string();
            new.put(&["spec", "clusterIP"], address.clone());
            new.put(&["spec", "clusterIPs"], vec![Value::from(address)]);
            return Ok(None);
        }
        // What is no address is told by the checks of the fields.
        let Ok(address) = asked.parse::<Ipv4Addr>() else { return Ok(None) };
        if self.had.addresses.contains(&address) {
            return Ok(None);
        }
        let ranges = ranges(self.world);
        let why = if !ranges.iter().any(|range| range.has(address)) {
            let all: Vec<String> = ranges.iter().map(|range| range.text.clone()).collect();
            format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {}",
                all.join(",")
            )
        } else if self.taken().addresses.contains(&address) {
            "provided IP is already allocated".to_owned()
        } else {
            return Ok(None);
        };
        let all = json!(new.items(&["spec", "clusterIPs"]));
        Ok(Some(FieldError::invalid("spec.clusterIPs", all, format!("failed to allocate IP {address}: {why}"))))
    }

    fn free_address(&mut self) -> Result<Ipv4Addr, ApiError> {
        let dice = self.world.ids.number();
        let ranges = ranges(self.world);
        let taken = &self.taken().addresses;
        let found = ranges.iter().find_map(|range| range.free(taken, dice));
        found.ok_or_else(|| ApiError::internal("failed to allocate a serviceIP: range is full"))
    }

    fn ports(&mut self, new: &mut Value) -> Result<Vec<FieldError>, ApiError> {
        let (for_ports, for_health) = (service::needs_node_port(new), service::needs_health_check_port(new));
        let mut errors = Vec::new();
        let mut ports = new.items(&["spec", "ports"]).to_vec();
        // One number may serve one Service under several protocols.
        let mut own = BTreeSet::new();
        for (at, port) in ports.iter().enumerate().filter(|_| for_ports) {
            let number = port.int(&["nodePort"]).unwrap_or(0);
            if number != 0 && own.insert(number) {
                errors.extend(self.claim(format!("spec.ports[{at}].nodePort"), number));
            }
        }
        let health = new.int(&["spec", "healthCheckNodePort"]).unwrap_or(0);
        if for_health && health != 0 {
            errors.extend(self.claim("spec.healthCheckNodePort".to_owned(), health));
        }
        for port in ports.iter_mut().filter(|port| for_ports && port.int(&["nodePort"]).unwrap_or(0) == 0) {
            port.put(&["nodePort"], self.free_port()?);
        }
        if for_ports && !ports.is_empty() {
            new.put(&["spec", "ports"], ports);
        }
        if for_health && health == 0 {
            new.put(&["spec", "healthCheckNodePort"], self.free_port()?);
        }
        Ok(errors)
    }

    fn claim(&mut self, path: String, number: i64) -> Option<FieldError> {
        if self.had.ports.contains(&number) {
            return None;
        }
        if !NODE_PORTS.contains(&number) {
            let range = format!("{}-{}", NODE_PORTS.start(), NODE_PORTS.end());
            let why = format!("provided port is not in the valid range. The range of valid ports is {range}");
            return Some(FieldError::invalid(path, number, why));
        }
        let is_new = self.taken().ports.insert(number);
        (!is_new).then(|| FieldError::invalid(path, number, "provided port is already allocated"))
    }

    fn free_port(&mut self) -> Result<i64, ApiError> {
        let count = NODE_PORTS.end() - NODE_PORTS.start() + 1;
        let first = i64::try_from(self.world.ids.number() % count.unsigned_abs()).unwrap_or(0);
        let had = self.had.ports.clone();
        let taken = &mut self.taken().ports;
        let mut all = (0..count).map(|step| NODE_PORTS.start() + (first + step) % count);
        let found = all.find(|port| !had.contains(port) && taken.insert(*port));
        found.ok_or_else(|| ApiError::internal("failed to allocate a nodePort: range is full"))
    }
}

/// A range of addresses.
struct Range {
    text: String,
    base: u32,
    /// Addresses in it, the first and the last included, which nobody gets.
    size: u32,
}

fn ranges(world: World<'_>) -> Vec<Range> {
    let declared = world.snapshot.items(RANGES).flat_map(|(_, entry)| {
        let object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
        let texts = object.items(&["spec", "cidrs"]).iter().filter_map(Value::as_str).map(str::to_owned);
        if object.is_deleting() { Vec::new() } else { texts.collect::<Vec<_>>() }
    });
    let ranges: Vec<Range> = declared.filter_map(|text| Range::parse(&text)).collect();
    if ranges.is_empty() { Range::parse(RANGE_DEFAULT).into_iter().collect() } else { ranges }
}

impl Range {
    /// A range of IPv4; `None` for anything else.
    fn parse(text: &str) -> Option<Range> {
        let (base, bits) = text.split_once('/')?;
        let (base, bits) = (base.parse::<Ipv4Addr>().ok()?, bits.parse::<u32>().ok()?);
        let size = 1u32.checked_shl(32u32.checked_sub(bits)?)?;
        Some(Range { text: text.to_owned(), base: u32::from(base) & !(size - 1), size })
    }

    fn has(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.base);
        offset > 0 && offset < self.size - 1
    }

    /// A free address, from a random place on; the start of the range only when nothing else is left.
    fn free(&self, taken: &BTreeSet<Ipv4Addr>, dice: u64) -> Option<Ipv4Addr> {
        let end = self.size.checked_sub(1)?;
        let reserved = (self.size / 16).clamp(*RESERVED.start(), *RESERVED.end()).min(end);
        let count = end.saturating_sub(reserved);
        let first = u32::try_from(dice % u64::from(count.max(1))).unwrap_or(0);
        let upper = (0..count).map(|step| reserved + (first + step) % count);
        let mut all = upper.chain(1..reserved).map(|offset| Ipv4Addr::from(self.base + offset));
        all.find(|address| !taken.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_gives_its_end_first_and_never_its_edges() {
        let range = Range::parse("10.0.0.0/27").expect("a range");
        let mut taken = BTreeSet::new();
        while let Some(address) = range.free(&taken, 7) {
            let last = address.octets()[3];
            assert!(range.has(address) && taken.insert(address));
            assert_eq!(taken.len() > 15, last < 16, "{address} came as number {}", taken.len());
        }
        assert_eq!(taken.len(), 30);
    }

    #[test]
    fn ranges_are_read() {
        let check = |text: &str, expected: Option<(&str, u32)>| {
            let found = Range::parse(text).map(|range| (Ipv4Addr::from(range.base).to_string(), range.size));
            assert_eq!(found, expected.map(|(base, size)| (base.to_owned(), size)), "{text}");
        };
        check("10.96.0.0/12", Some(("10.96.0.0", 1 << 20)));
        check("10.96.1.2/16", Some(("10.96.0.0", 1 << 16)));
        check("10.96.1.2/32", Some(("10.96.1.2", 1)));
        check("10.96.0.0/0", None);
        check("10.96.0.0/33", None);
        check("fd00::/64", None);
        check("", None);
    }
}
