//! Which images of a runtime that keeps them itself may go. Such a runtime does not say when an image came or was needed
//! last: what is known of that is what was seen here, as with upstream.

use std::collections::BTreeMap;
use std::time::Duration;

use stdx::Time;

/// An image that the runtime has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The runtime's name for it.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Whether a pod names it or a container was made of it.
    pub is_needed: bool,
    /// Whether it is to be kept in any case.
    pub is_pinned: bool,
}

/// When images were seen to come and to be needed.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Whether there was a look: what is there at the first has been there for nobody knows how long.
    is_begun: bool,
    seen: BTreeMap<String, Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// When it came; the beginning of time where that was before the first look.
    came: Time,
    needed: Time,
}

impl Ledger {
    /// An image has come.
    pub fn note(&mut self, id: &str, now: Time) {
        self.seen.entry(id.to_owned()).or_default().came = now;
    }

    /// Of all images there are now, those that may go: the longest unneeded first, then those that came first. None
    /// that is needed or pinned, nor one that came less than `age_min` ago.
    pub fn removable(&mut self, images: &[Image], age_min: Duration, now: Time) -> Vec<Image> {
        self.look(images, now);
        let seen = |image: &Image| self.seen.get(&image.id).copied().unwrap_or_default();
        let may_go = |image: &&Image| !image.is_needed && !image.is_pinned && seen(image).came.after(age_min) <= now;
        let mut found: Vec<Image> = images.iter().filter(may_go).cloned().collect();
        found.sort_by_key(|image| (seen(image).needed, seen(image).came, image.id.clone()));
        found
    }

    fn look(&mut self, images: &[Image], now: Time) {
        let fresh = if self.is_begun { now } else { Time::EPOCH };
        self.is_begun = true;
        for image in images {
            let seen = self.seen.entry(image.id.clone()).or_insert(Seen { came: fresh, needed: Time::EPOCH });
            if image.is_needed {
                seen.needed = now;
            }
        }
        self.seen.retain(|id, _| images.iter().any(|image| image.id == *id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str) -> Image {
        Image { id: id.to_owned(), size: 1, ..Image::default() }
    }

    fn check(ledger: &mut Ledger, images: &[Image], seconds: i64, expected: &[&str]) {
        let found = ledger.removable(images, Duration::from_secs(120), Time::from_secs(seconds));
        assert_eq!(found.iter().map(|image| image.id.as_str()).collect::<Vec<_>>(), expected, "at {seconds}");
    }

    #[test]
    fn what_nobody_needs_goes_when_it_is_old_enough() {
        let mut ledger = Ledger::default();
        let needed = Image { is_needed: true, ..image("needed") };
        let pinned = Image { is_pinned: true, ..image("pinned") };
        check(&mut ledger, &[image("old"), needed.clone(), pinned.clone()], 1_000, &["old"]);
        check(&mut ledger, &[image("new"), needed, pinned], 1_010, &[]);
        // What was needed last goes last.
        check(&mut ledger, &[image("needed"), image("new")], 1_129, &["needed"]);
        check(&mut ledger, &[image("needed"), image("new")], 1_130, &["new", "needed"]);
    }

    #[test]
    fn an_image_that_was_just_fetched_is_young_at_the_first_look_too() {
        let mut ledger = Ledger::default();
        ledger.note("fetched", Time::from_secs(990));
        check(&mut ledger, &[image("fetched"), image("old")], 1_000, &["old"]);
        // Gone and come again, it is another.
        check(&mut ledger, &[], 1_001, &[]);
        check(&mut ledger, &[image("old")], 1_200, &[]);
    }
}
