//! The outer form of PEM. What is inside is read by who signs or verifies.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// One block: its label and whether its body is base64 that is not empty.
pub(super) struct Block<'t> {
    pub label: &'t str,
    pub is_sound: bool,
}

/// The blocks of a text, in order; text between blocks is skipped.
pub(super) fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let Some((label, body)) = after.split_once("-----") else { break };
        let end = format!("-----END {label}-----");
        let Some((body, after)) = body.split_once(end.as_str()) else { break };
        let packed: String = body.chars().filter(|c| !c.is_whitespace()).collect();
        blocks.push(Block { label, is_sound: STANDARD.decode(&packed).is_ok_and(|der| !der.is_empty()) });
        rest = after;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_blocks() {
        let text =
            "x\n-----BEGIN A-----\nAAAA\n-----END A-----\n-----BEGIN B-----\n?\n-----END B-----\n-----BEGIN C-----";
        let found: Vec<_> = blocks(text).iter().map(|block| (block.label, block.is_sound)).collect();
        assert_eq!(found, [("A", true), ("B", false)]);
        assert!(blocks("nothing").is_empty());
    }
}
