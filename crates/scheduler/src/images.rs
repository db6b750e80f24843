//! Which nodes have which images.

use std::collections::BTreeMap;

use brain::facts::ContainerImage;

use crate::topology::NodeIx;

/// Images by name, numbered so that looking one up on many nodes compares no names.
#[derive(Default)]
pub struct Images {
    by_name: BTreeMap<Box<str>, u32>,
    /// By number: how many nodes have it.
    nodes: Vec<(Box<str>, u32)>,
    free: Vec<u32>,
    /// By node: number and bytes, sorted.
    on_node: Vec<Vec<(u32, i64)>>,
}

impl Images {
    /// A node has these images now; `None` when it is gone.
    pub fn place(&mut self, node: NodeIx, images: Option<&[ContainerImage]>) {
        let at = node as usize;
        if self.on_node.len() <= at {
            self.on_node.resize(at + 1, Vec::new());
        }
        for (image, _) in std::mem::take(&mut self.on_node[at]) {
            self.leave(image);
        }
        let named = images.into_iter().flatten().flat_map(|i| i.names.iter().map(|name| (name, i.size_bytes)));
        let by_name: BTreeMap<&Box<str>, i64> = named.collect();
        let mut on_node: Vec<(u32, i64)> = by_name.into_iter().map(|(name, bytes)| (self.enter(name), bytes)).collect();
        on_node.sort_unstable();
        self.on_node[at] = on_node;
    }

    fn enter(&mut self, name: &str) -> u32 {
        if let Some(image) = self.by_name.get(name) {
            self.nodes[*image as usize].1 += 1;
            return *image;
        }
        let image = self.free.pop().unwrap_or(self.nodes.len() as u32);
        if image as usize == self.nodes.len() {
            self.nodes.push((name.into(), 1));
        } else {
            self.nodes[image as usize] = (name.into(), 1);
        }
        self.by_name.insert(name.into(), image);
        image
    }

    fn leave(&mut self, image: u32) {
        let (name, nodes) = &mut self.nodes[image as usize];
        *nodes -= 1;
        if *nodes == 0 {
            self.by_name.remove(name);
            self.free.push(image);
        }
    }

    /// The numbers of the images that some node has.
    pub fn known(&self, names: &[Box<str>]) -> Vec<u32> {
        names.iter().filter_map(|name| self.by_name.get(name).copied()).collect()
    }

    /// How many bytes an image has on a node, and how many nodes have it; `None` when the node has not.
    pub fn on_node(&self, node: NodeIx, image: u32) -> Option<(i64, u32)> {
        let on_node = self.on_node.get(node as usize)?;
        let found = on_node.binary_search_by_key(&image, |(own, _)| *own).ok()?;
        Some((on_node[found].1, self.nodes[image as usize].1))
    }
}
