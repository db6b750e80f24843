//! Who takes part in a plan: every controller whose work follows from objects, the scheduler, and who plays the pods.

use std::sync::{Arc, LazyLock};

use admit::UserInfo;
use brain::Controller;

/// Judges nodes by how long ago they were heard of: in a plan's time nobody renews leases, and nodes stay as they are.
const ABSENT: &str = "node-lifecycle";

/// One controller with its identity.
#[derive(Clone)]
pub(crate) struct Member {
    /// The decision.
    pub controller: Controller,
    /// Who it acts as.
    pub user: Arc<UserInfo>,
    /// Field manager and user agent, as the driver has.
    pub agent: String,
    /// Whether it stands in for nodes.
    pub plays_pods: bool,
}

/// Everybody but the scheduler.
pub(crate) fn members() -> &'static [Member] {
    static ALL: LazyLock<Vec<Member>> = LazyLock::new(|| {
        let brains = controllers::all().into_iter().filter(|controller| controller.def.name != ABSENT);
        let mut all: Vec<Member> = brains.map(|controller| member(controller, false)).collect();
        all.push(member(agent::played(), true));
        all
    });
    &ALL
}

fn member(controller: Controller, plays_pods: bool) -> Member {
    let name = controller.def.name;
    let user = UserInfo::service_account("kube-system", &admit::bootstrap::controller_account(name), "");
    Member { user: Arc::new(user), agent: format!("{name}-controller"), controller, plays_pods }
}

/// Who the scheduler acts as.
pub(crate) fn scheduler_user() -> Arc<UserInfo> {
    Arc::new(UserInfo::new("system:kube-scheduler", [""; 0]).authenticated())
}
