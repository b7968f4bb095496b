//! Crash states of [`Profile::Any`](crate::Profile): each page, size, entry and inode is in any version.

use crate::file::{Cause, File};
use crate::page::{Tearing, draw_version};
use crate::{Disk, FileState, State};
use belljar_base::Stream;

impl Disk {
    /// Draws a state.
    pub(crate) fn crash_any(&self, tearing: Tearing, draw: &mut Stream) -> State {
        let mut state = State { entries: self.entries.draw(draw), ..State::default() };
        for (inode, versions) in &self.attributes {
            state.attributes.insert(*inode, versions[draw_version(0, versions.len() - 1, draw)].1);
        }
        for (inode, file) in &self.files {
            state.files.insert(*inode, draw_file(file, tearing, draw));
        }
        state
    }
}

fn draw_file(file: &File, tearing: Tearing, draw: &mut Stream) -> FileState {
    let sizes: Vec<u64> = std::iter::once(file.base_size)
        .chain(file.sizes.iter().filter(|resize| resize.cause != Cause::Flush).map(|resize| resize.size))
        .collect();
    let size = sizes[draw_version(0, sizes.len() - 1, draw)];
    let pages = file.pages.iter().map(|(number, page)| {
        let version = draw_version(0, page.versions() - 1, draw);
        (*number, page.torn(version, 0, tearing, draw).into())
    });
    FileState { size, pages: pages.collect() }
}
