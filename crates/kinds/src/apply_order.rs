//! Where a kind stands when many objects are applied at once: what others need comes first, what intercepts others
//! comes last. Deletion goes the other way round. Gaps are left for kinds yet to come.

/// Kinds of kinds: CustomResourceDefinitions.
pub const DEFINITION: u16 = 10;
/// Namespaces.
pub const NAMESPACE: u16 = 20;
/// Classes that other objects name: PriorityClass, StorageClass, RuntimeClass, IngressClass, DeviceClass.
pub const CLASS: u16 = 30;
/// What bounds the objects of a namespace: quotas, ranges, network policies, disruption budgets.
pub const BOUND: u16 = 40;
/// Who may do what: ServiceAccounts, roles and their bindings.
pub const IDENTITY: u16 = 50;
/// What workloads read: Secrets, ConfigMaps.
pub const CONFIG: u16 = 60;
/// Volumes and claims.
pub const STORAGE: u16 = 70;
/// Services come before their pods, so that environment variables and names are there.
pub const SERVICE: u16 = 80;
/// Everything that runs, and whatever says nothing else.
pub const WORKLOAD: u16 = 100;
/// What leads to or steers workloads: Ingress, HorizontalPodAutoscaler.
pub const ROUTE: u16 = 120;
/// What stands in the way of other writes: webhooks, admission policies, APIServices.
pub const INTERCEPTOR: u16 = 200;
