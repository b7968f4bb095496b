//! Crash states of [`Profile::Ordered`](crate::Profile): one cut for all metadata, then each file's data.
//!
//! A file's size on disk is that of its last truncation before the cut, or larger by one *flush*: at some moment before
//! the cut, the data up to some page was written back and the file extended to there. Pages below have the data of that
//! moment or newer. A page that has blocks on disk may be overwritten there at any time, also by data that was written after
//! the cut; one that has none (it lies beyond the synced size, or was truncated before the cut) must have
//! been written before the cut to get some. A truncation after the cut ends the versions of the pages that it cuts off: the
//! blocks that are on disk are no longer written.

use crate::file::{Cause, File};
use crate::page::{PAGE, Page, Tearing, draw_version};
use crate::{Disk, FileState, State};
use belljar_base::Stream;

/// Flush of a file: data that was written before a position, up to a page, is on disk.
#[derive(Clone, Copy, Debug, Default)]
struct Flush {
    position: u64,
    pages: u64,
}

impl Disk {
    /// Draws a state.
    pub(crate) fn crash_ordered(&self, tearing: Tearing, draw: &mut Stream) -> State {
        let cuts = self.cuts();
        let cut = cuts[draw_version(0, cuts.len() - 1, draw)];
        let mut state = State { entries: self.entries.before(cut), ..State::default() };
        for (inode, versions) in &self.attributes {
            let count = versions.partition_point(|(at, _)| *at < cut);
            state.attributes.insert(*inode, versions[count - 1].1);
        }
        for (inode, file) in &self.files {
            state.files.insert(*inode, draw_file(file, cut, tearing, draw));
        }
        state
    }
}

fn draw_file(file: &File, cut: u64, tearing: Tearing, draw: &mut Stream) -> FileState {
    let committed = &file.sizes[..file.sizes.partition_point(|resize| resize.position < cut)];
    let last = |cause| committed.iter().rfind(|resize| resize.cause == cause);
    let forced =
        last(Cause::Flush).map_or(Flush::default(), |at| Flush { position: at.position, pages: u64::MAX });
    let (mut size, mut since) =
        last(Cause::Metadata).map_or((file.base_size, 0), |at| (at.size, at.position));
    if forced.position > since {
        (size, since) = (size.max(file.size_at(forced.position)), forced.position);
    }
    let mut drawn = Flush::default();
    let extensions: Vec<_> =
        committed.iter().filter(|resize| resize.position > since && resize.size > size).collect();
    if !extensions.is_empty() && draw.below(4) != 0 {
        let resize = extensions[draw_version(0, extensions.len() - 1, draw)];
        let position = resize.position + 1;
        // The size on disk ends with the file or with a page that has data.
        let ends: Vec<u64> = file
            .pages
            .iter()
            .filter(|(number, page)| {
                (**number + 1) * PAGE > size && page.is_written(page.version_at(position))
            })
            .map(|(number, _)| number + 1)
            .collect();
        if !ends.is_empty() {
            drawn = Flush { position, pages: ends[draw_version(0, ends.len() - 1, draw)] };
            size = size.max(resize.size.min(drawn.pages * PAGE));
        }
    }
    let pages = file.pages.iter().map(|(number, page)| {
        let flushes = [forced, drawn].into_iter().filter(|flush| *number < flush.pages);
        let least = flushes.map(|flush| page.version_at(flush.position)).max().unwrap_or(0);
        let has_blocks = number * PAGE < file.base_size;
        (*number, draw_page(page, has_blocks, least, cut, tearing, draw).into())
    });
    FileState { size, pages: pages.collect() }
}

/// Draws the content of a page that is at least version `least`.
fn draw_page(
    page: &Page,
    has_blocks: bool,
    least: usize,
    cut: u64,
    tearing: Tearing,
    draw: &mut Stream,
) -> Vec<u8> {
    let at_cut = page.version_at(cut);
    let end = page.deallocated(at_cut, page.versions()).unwrap_or(page.versions());
    let deallocated = page.last_deallocated(at_cut);
    let hole = deallocated.unwrap_or(0);
    let mut first = least.max(hole);
    if deallocated.is_some() || !has_blocks {
        if at_cut == hole || least <= hole && draw.below(2) == 0 {
            return page.content(hole);
        }
        first = first.max(hole + 1);
    }
    page.torn(draw_version(first, end - 1, draw), first, tearing, draw)
}
