//! Files that grow piece by piece during a run.
//!
//! A worker writes its pieces itself, while they are in the cache. If a processor is idle, a separate thread
//! writes as many of them as it can. The content of the files is the same.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::mem;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Number of bytes buffered before a write, at multiples of [`PAGE`]: file systems store large whole blocks
/// in half the time.
const BLOCK: usize = 64 << 10;
/// Size from which a piece is written at once, without a copy.
const LARGE: usize = 16 << 10;
const PAGE: usize = 4096;

/// Number of bytes queued for the thread at which it receives no further files.
const BUSY: usize = 8 << 20;
/// Upper bound on the bytes queued for the thread.
const MOST: usize = 64 << 20;
/// Number of empty buffers kept for reuse.
const SPARE: usize = 16;
/// Size of the largest buffer kept for reuse, in bytes.
const LARGEST_SPARE: usize = 1 << 20;

/// Writer of growing files, see the [module](self). Dropping it writes all queued pieces.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    /// True while the writer thread accepts files.
    has_thread: AtomicBool,
    queue: Mutex<Queue>,
    /// Signalled when a file is queued, or the queue is closed.
    work: Condvar,
    /// Signalled when the number of queued bytes falls.
    room: Condvar,
    /// Number of bytes queued for the thread.
    waiting: AtomicUsize,
    spare: Mutex<Vec<Vec<u8>>>,
    failed: AtomicBool,
}

#[derive(Default)]
struct Queue {
    files: VecDeque<Arc<Growing>>,
    closed: bool,
    /// True if the thread has ended and no longer drains the queue.
    abandoned: bool,
}

/// A growing file. After a failed write, further pieces are discarded; [`Growing::finish`] reports the error.
pub struct Growing {
    shared: Arc<Shared>,
    to: To,
    state: Mutex<State>,
}

enum To {
    /// Written in whole pages, the rest at the end.
    File(File),
    /// Opened only for each write: there may be thousands.
    Path(PathBuf),
}

#[derive(Default)]
struct State {
    /// Bytes to be written next.
    waiting: Vec<u8>,
    /// True if the thread writes the file, including pieces appended meanwhile.
    queued: bool,
    /// Number of its bytes that count as queued for the thread.
    counted: usize,
    error: Option<io::Error>,
}

impl Writer {
    /// Creates a writer. With `idle_processor`, a thread on the caller's processors writes as much as it can.
    pub fn new(idle_processor: bool) -> Writer {
        let shared = Arc::new(Shared {
            has_thread: AtomicBool::new(false),
            queue: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            waiting: AtomicUsize::new(0),
            spare: Mutex::default(),
            failed: AtomicBool::new(false),
        });
        let run = shared.clone();
        let spawn = || thread::Builder::new().name("writer".into()).spawn(move || run.write_all()).ok();
        let thread = idle_processor.then(spawn).flatten();
        shared.has_thread.store(thread.is_some(), Relaxed);
        Writer { shared, thread: Mutex::new(thread) }
    }

    /// A growing file that is empty and open.
    pub fn file(&self, file: File) -> Arc<Growing> {
        self.growing(To::File(file))
    }
    /// A growing file that is opened, or created, for each write.
    pub fn appended(&self, path: PathBuf) -> Arc<Growing> {
        self.growing(To::Path(path))
    }
    fn growing(&self, to: To) -> Arc<Growing> {
        Arc::new(Growing { shared: self.shared.clone(), to, state: Mutex::default() })
    }

    /// True if a write has failed.
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Relaxed)
    }
    /// Records a failure of a write.
    pub fn fail(&self) {
        self.shared.failed.store(true, Relaxed);
    }

    /// Waits for the queued pieces. From now on callers write their pieces themselves.
    pub fn close(&self) {
        self.shared.has_thread.store(false, Relaxed);
        lock(&self.shared.queue).closed = true;
        self.shared.work.notify_one();
        let ended = lock(&self.thread).take().map_or(Ok(()), JoinHandle::join);
        if let Err(panic) = ended
            && !thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// True if the thread should write the next piece.
    fn leaves_it_to_thread(&self) -> bool {
        self.has_thread.load(Relaxed) && self.waiting.load(Relaxed) < BUSY
    }

    /// Queues a file for the thread.
    fn enqueue(&self, file: &Arc<Growing>) {
        let mut queue = lock(&self.queue);
        if queue.closed || queue.abandoned {
            drop(queue);
            return file.write_waiting();
        }
        queue.files.push_back(file.clone());
        drop(queue);
        self.work.notify_one();
    }

    /// Main loop of the writer thread.
    fn write_all(&self) {
        let _abandoned = Abandoned(self);
        let mut queue = lock(&self.queue);
        loop {
            if let Some(file) = queue.files.pop_front() {
                drop(queue);
                file.write_waiting();
                queue = lock(&self.queue);
            } else if queue.closed {
                return;
            } else {
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Waits until the thread has caught up.
    fn wait_for_room(&self) {
        let mut queue = lock(&self.queue);
        while self.waiting.load(Relaxed) >= MOST && !queue.abandoned {
            queue = self.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
    /// Subtracts bytes that are no longer queued.
    fn make_room(&self, bytes: usize) {
        let queue = lock(&self.queue);
        if self.waiting.fetch_sub(bytes, Relaxed) >= MOST {
            self.room.notify_all();
        }
        drop(queue);
    }
}

/// Guard of the running thread: its drop releases waiters even after a panic.
struct Abandoned<'a>(&'a Shared);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.0.has_thread.store(false, Relaxed);
        lock(&self.0.queue).abandoned = true;
        self.0.room.notify_all();
    }
}

impl Growing {
    /// Appends data to the file, now or later.
    pub fn add(self: &Arc<Self>, data: &[u8]) {
        let mut state = lock(&self.state);
        let all = state.waiting.len() + data.len();
        let rest = self.rest(all);
        let may_wait = matches!(self.to, To::File(_)) && all < BLOCK && data.len() < LARGE;
        if may_wait || data.len() < rest {
            state.waiting.extend_from_slice(data);
        } else if state.queued || self.shared.leaves_it_to_thread() {
            self.hand_over(state, data);
        } else {
            let (now, later) = data.split_at(data.len() - rest);
            let waiting = mem::take(&mut state.waiting);
            self.write(&mut state, &waiting, now);
            state.waiting = waiting;
            state.waiting.clear();
            state.waiting.extend_from_slice(later);
        }
    }

    /// Number of `bytes` that must stay buffered to write whole pages.
    fn rest(&self, bytes: usize) -> usize {
        match self.to {
            To::File(_) => bytes % PAGE,
            To::Path(_) => 0,
        }
    }

    fn hand_over<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>, data: &[u8]) {
        if self.shared.waiting.load(Relaxed) >= MOST {
            drop(state);
            self.shared.wait_for_room();
            state = lock(&self.state);
        }
        if !state.queued {
            // The file's own buffer is small: take a larger one.
            let mut buffer = lock(&self.shared.spare).pop().unwrap_or_default();
            buffer.extend_from_slice(&state.waiting);
            state.waiting = buffer;
        }
        state.waiting.extend_from_slice(data);
        let uncounted = state.waiting.len() - state.counted;
        state.counted += uncounted;
        self.shared.waiting.fetch_add(uncounted, Relaxed);
        if !mem::replace(&mut state.queued, true) {
            drop(state);
            self.shared.enqueue(self);
        }
    }

    /// Writes the buffered bytes, including those appended meanwhile.
    fn write_waiting(&self) {
        let mut state = lock(&self.state);
        while state.queued {
            let whole = state.waiting.len() - self.rest(state.waiting.len());
            let rest = state.waiting[whole..].to_vec();
            let mut buffer = mem::replace(&mut state.waiting, rest);
            buffer.truncate(whole);
            let counted = mem::take(&mut state.counted);
            let has_failed = state.error.is_some();
            drop(state);
            let written = if has_failed { Ok(()) } else { self.write_both(&buffer, &[]) };
            self.shared.make_room(counted);
            buffer.clear();
            let mut spare = lock(&self.shared.spare);
            if spare.len() < SPARE && buffer.capacity() <= LARGEST_SPARE {
                spare.push(buffer);
            }
            drop(spare);
            state = lock(&self.state);
            self.note(&mut state, written);
            state.queued = state.counted > 0;
        }
    }

    fn write(&self, state: &mut State, first: &[u8], second: &[u8]) {
        if state.error.is_none() {
            let written = self.write_both(first, second);
            self.note(state, written);
        }
    }
    fn note(&self, state: &mut State, written: io::Result<()>) {
        if let Err(error) = written {
            state.error = Some(error);
            self.shared.failed.store(true, Relaxed);
        }
    }

    /// Writes all of two pieces.
    fn write_both(&self, first: &[u8], second: &[u8]) -> io::Result<()> {
        let opened;
        let mut file = match &self.to {
            To::File(file) => file,
            To::Path(path) => {
                opened = OpenOptions::new().append(true).create(true).open(path)?;
                &opened
            }
        };
        let pieces = &[IoSlice::new(first), IoSlice::new(second)];
        let written = loop {
            match file.write_vectored(pieces) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                written => break written?,
            }
        };
        file.write_all(first.get(written..).unwrap_or_default())?;
        file.write_all(second.get(written.saturating_sub(first.len())..).unwrap_or_default())
    }

    /// Writes the remaining bytes. The [`Writer`] must have been closed, or never have had a thread.
    ///
    /// # Errors
    /// The first error of a write.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        let waiting = mem::take(&mut state.waiting);
        if !waiting.is_empty() {
            self.write(&mut state, &waiting, &[]);
        }
        state.error.take().map_or(Ok(()), Err)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of all sizes, whose content identifies their position.
    fn pieces(file: usize) -> impl Iterator<Item = Vec<u8>> {
        let len = move |n: usize| [3, 100, LARGE - 1, LARGE, 70_001, 5 * BLOCK][(n * 7 + file) % 6];
        (0..60).map(move |n| (0..len(n)).map(|at| (at % 251 + n + file) as u8).collect())
    }

    /// Appends to several files, and calls `close` before they are finished.
    fn grow(writer: &Writer, close: impl Fn()) {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..6).map(|n| dir.path().join(n.to_string())).collect();
        let files: Vec<Arc<Growing>> = (paths.iter().enumerate())
            .map(|(n, path)| match n % 2 {
                0 => writer.file(File::create(path).unwrap()),
                _ => writer.appended(path.clone()),
            })
            .collect();
        // Each file by one thread, as for hosts.
        thread::scope(|scope| {
            for (n, file) in files.iter().enumerate() {
                scope.spawn(move || pieces(n).for_each(|piece| file.add(&piece)));
            }
        });
        close();
        for (n, (file, path)) in files.iter().zip(&paths).enumerate() {
            // A late piece is written as well.
            file.add(b"the end");
            file.finish().unwrap();
            let expected = [pieces(n).flatten().collect(), b"the end".to_vec()].concat();
            assert!(std::fs::read(path).unwrap() == expected, "file {n}");
        }
        assert!(!writer.has_failed());
    }

    #[test]
    fn files_consist_of_their_pieces_whoever_writes_them() {
        for idle_processor in [false, true] {
            let writer = Writer::new(idle_processor);
            grow(&writer, || writer.close());
            assert_eq!(writer.shared.waiting.load(Relaxed), 0);
        }
    }

    #[test]
    fn who_has_more_than_the_thread_can_write_waits_for_it() {
        let writer = Writer::new(true);
        let (mut reader, pipe) = io::pipe().unwrap();
        let slow = writer.file(File::from(std::os::fd::OwnedFd::from(pipe)));
        let piece = vec![1; 2 * BUSY];
        slow.add(&piece);
        assert!(!writer.shared.leaves_it_to_thread(), "a pipe holds 64 KiB");
        // Other files do not wait.
        grow(&writer, || {});
        let pieces = 2 * MOST / piece.len();
        let reading = thread::spawn(move || io::copy(&mut reader, &mut io::sink()).unwrap());
        for _ in 1..pieces {
            slow.add(&piece);
            assert!(writer.shared.waiting.load(Relaxed) < MOST + piece.len());
        }
        writer.close();
        slow.finish().unwrap();
        drop(slow);
        assert_eq!(reading.join().unwrap(), (pieces * piece.len()) as u64);
    }

    #[test]
    fn behind_what_could_not_be_written_nothing_is() {
        for idle_processor in [false, true] {
            let writer = Writer::new(idle_processor);
            let full = [writer.file(File::create("/dev/full").unwrap()), writer.appended("/dev/full".into())];
            for file in &full {
                file.add(&[1; 2 * BLOCK]);
                file.add(&[2; 2 * BLOCK]);
            }
            let dir = tempfile::tempdir().unwrap();
            let folder = dir.path().join("made late");
            let late = writer.appended(folder.join("file"));
            late.add(b"lost");
            while lock(&late.state).error.is_none() {
                thread::yield_now();
            }
            std::fs::create_dir(&folder).unwrap();
            late.add(b"what comes after it");
            writer.close();
            assert!(writer.has_failed());
            let errors = full.map(|file| file.finish().unwrap_err().kind());
            assert_eq!(errors, [io::ErrorKind::StorageFull; 2]);
            assert_eq!(late.finish().unwrap_err().kind(), io::ErrorKind::NotFound);
            assert!(!folder.join("file").exists());
        }
    }
}
