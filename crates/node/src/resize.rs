//! Gives what runs other resources.

use std::collections::BTreeMap;

use agent::figures::Figures;
use agent::pod::Resized;
use agent::resize::{Lowered, refuse_lowering};
use contract::Resources;
use meta::ObjectExt;
use serde_json::Value;

use crate::dirs::Dirs;
use crate::perform::Hands;
use crate::sandbox_spec::resources;

impl Hands {
    /// All or, where a limit would be below what is in use, nothing. The pod's cgroup always has room for its
    /// containers: it grows before them and shrinks after them. What was done is remembered step by step.
    pub(crate) async fn resize(
        &self,
        pod: &Value,
        sandbox: &str,
        (from, to): (&Figures, &Figures),
        containers: &[Resized],
    ) -> Result<(), String> {
        let figures = |text: &str| Figures::of(&serde_json::from_str(text).unwrap_or_default());
        if let Some(why) = refuse_lowering(&self.lowered(sandbox, (from, to), containers).await?) {
            return Err(why);
        }
        self.resize_sandbox(sandbox, &from.or_more(*to)).await?;
        for Resized { id, to, .. } in containers {
            let limits = changed(&figures(to));
            self.runtime.update_resources(id, &limits).await.map_err(|error| error.to_string())?;
            self.remember(pod, id, to)?;
        }
        self.resize_sandbox(sandbox, to).await?;
        self.remember(pod, sandbox, &serde_json::to_string(to).map_err(|error| error.to_string())?)
    }

    /// Whose limit of memory is to be lowered, and how much each of them uses.
    async fn lowered(
        &self,
        sandbox: &str,
        (from, to): (&Figures, &Figures),
        containers: &[Resized],
    ) -> Result<Vec<Lowered>, String> {
        let usage = |stats: contract::Stats| i64::try_from(stats.memory.usage_bytes).unwrap_or(i64::MAX);
        let mut all = Vec::new();
        if let Some(limit) = lowered_limit(from, to) {
            let stats = self.runtime.sandbox_stats(sandbox).await.map_err(|error| error.to_string())?;
            all.push(Lowered { container: None, limit, usage: usage(stats) });
        }
        let figures = |text: &str| Figures::of(&serde_json::from_str(text).unwrap_or_default());
        for Resized { container, id, from, to } in containers {
            if let Some(limit) = lowered_limit(&figures(from), &figures(to)) {
                let stats = self.runtime.stats(id).await.map_err(|error| error.to_string())?;
                all.push(Lowered { container: Some(container.clone()), limit, usage: usage(stats) });
            }
        }
        Ok(all)
    }

    async fn resize_sandbox(&self, sandbox: &str, to: &Figures) -> Result<(), String> {
        self.runtime.update_sandbox_resources(sandbox, &changed(to)).await.map_err(|error| error.to_string())
    }

    fn remember(&self, pod: &Value, id: &str, text: &str) -> Result<(), String> {
        let path = self.dirs.resized(pod.uid(), id);
        let parent = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        parent.and_then(|()| std::fs::write(&path, text)).map_err(|error| error.to_string())
    }
}

/// The new limit of memory, if it is lower than the old one.
fn lowered_limit(from: &Figures, to: &Figures) -> Option<i64> {
    to.memory_max.filter(|limit| from.memory_max.is_none_or(|before| *limit < before))
}

/// The figures for a cgroup that has others: what has no limit any more has to be said.
fn changed(figures: &Figures) -> Resources {
    let mut limits = resources(figures);
    limits.cpu_quota_us.get_or_insert(-1);
    limits.memory_limit_bytes.get_or_insert(-1);
    limits
}

/// What containers and sandboxes of a pod were resized to, by id.
pub(crate) fn remembered(dirs: &Dirs, uid: &str) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(dirs.all_resized(uid)).into_iter().flatten().flatten();
    let read = |file: std::fs::DirEntry| {
        Some((file.file_name().into_string().ok()?, std::fs::read_to_string(file.path()).ok()?))
    };
    files.filter_map(read).collect()
}

/// The same of all pods.
pub(crate) fn all_remembered(dirs: &Dirs) -> BTreeMap<String, String> {
    let pods = std::fs::read_dir(dirs.pods()).into_iter().flatten().flatten();
    let uids = pods.filter_map(|pod| pod.file_name().into_string().ok());
    uids.flat_map(|uid| remembered(dirs, &uid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_limit_that_is_lowered_is_compared_with_what_is_used() {
        let memory = |limit: Option<&str>| Figures::of(&json!({"limits": {"memory": limit}}));
        let check = |from, to, expected| assert_eq!(lowered_limit(&memory(from), &memory(to)), expected);
        check(Some("2"), Some("1"), Some(1));
        check(None, Some("1"), Some(1));
        check(Some("1"), Some("2"), None);
        check(Some("1"), Some("1"), None);
        check(Some("1"), None, None);
    }

    #[test]
    fn what_is_not_limited_any_more_is_said() {
        let lifted = changed(&Figures::of(&json!({})));
        assert_eq!((lifted.cpu_quota_us, lifted.memory_limit_bytes), (Some(-1), Some(-1)));
    }
}
