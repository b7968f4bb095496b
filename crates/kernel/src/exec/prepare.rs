//! Resolution of a path to a program that can be mapped: scripts lead to their interpreters, images to their
//! loaders. The running process is not changed.

use super::load;
use super::load::{ExecError, Image, Program};
use crate::files::executable::Executable;
use crate::host::Host;
use crate::ids::ProcessKey;
use belljar_linux_abi::{Errno, c};
use belljar_machine::Machine;
use belljar_machine::script::{LINE_MAX, MAX_DEPTH, Shebang};
use belljar_objects::notify::fanotify::ExecPermission;

/// Maximum total bytes of arguments and environment, a quarter of the stack: `execve(2)`, "Limits on size of
/// arguments and environment".
const MAX_STRINGS: usize = 2 << 20;

impl Host {
    /// Finds and reads all files needed to run `path`.
    pub(super) fn prepare_program(
        &mut self,
        process: ProcessKey,
        path: Vec<u8>,
        mut args: Vec<Vec<u8>>,
        environment: Vec<Vec<u8>>,
        asked: &mut ExecPermission,
    ) -> Result<Program, ExecError> {
        let mut current = path.clone();
        for _ in 0..=MAX_DEPTH {
            let file = self
                .open_program(process, &current, asked)
                .map_err(|errno| not_opened(errno, &path, &current))?;
            let Some(shebang) = read_shebang(&mut *self.machine, &file)? else {
                let native = file.native;
                check_strings(&args, &environment).inspect_err(|_| self.machine.close(native))?;
                let images = self.read_images(process, file, &path, asked);
                let (image, interpreter) = images.inspect_err(|_| self.machine.close(native))?;
                return Ok(Program { image, interpreter, args, environment, path });
            };
            self.machine.close(file.native);
            let mut replaced = vec![shebang.interpreter.clone()];
            replaced.extend(shebang.argument);
            replaced.push(current);
            replaced.extend(args.into_iter().skip(1));
            (args, current) = (replaced, shebang.interpreter);
        }
        Err(ExecError::new(
            Errno::ELOOP,
            "its interpreter is a script whose interpreter is a script, and so on",
        ))
    }

    /// Opens one of the files, once fanotify permission listeners have allowed it.
    fn open_program(
        &mut self,
        process: ProcessKey,
        path: &[u8],
        asked: &mut ExecPermission,
    ) -> Result<Executable, Errno> {
        let file = self.open_executable(process, path)?;
        let (mount, inode) = file.place;
        for mask in [c::FAN_OPEN_EXEC_PERM, c::FAN_OPEN_PERM] {
            if asked.is_next() {
                let answer = self.ask_permission(Some(mount), inode, mask);
                if !matches!(answer, Ok(None)) {
                    self.machine.close(file.native);
                    asked.waits = answer?;
                    return Err(Errno::EAGAIN);
                }
            }
        }
        if asked.is_next() {
            for mask in [c::FAN_OPEN | c::FAN_OPEN_EXEC, c::FAN_ACCESS] {
                self.file_event_under(None, Some(Some(mount)), inode, mask as u32);
            }
        }
        Ok(file)
    }

    /// Reads an image and the loader that it names.
    fn read_images(
        &mut self,
        process: ProcessKey,
        file: Executable,
        path: &[u8],
        asked: &mut ExecPermission,
    ) -> Result<(Image, Option<Image>), ExecError> {
        let image = load::read_image(&mut *self.machine, file)?;
        let Some(name) = load::interpreter_path(&mut *self.machine, &image)? else {
            return Ok((image, None));
        };
        let file = self.open_program(process, &name, asked);
        let file = file.map_err(|errno| not_opened(errno, path, &name))?;
        let native = file.native;
        let interpreter =
            load::read_image(&mut *self.machine, file).inspect_err(|_| self.machine.close(native))?;
        Ok((image, Some(interpreter)))
    }
}

/// `E2BIG` if arguments and environment, with a pointer and a terminator each, exceed `MAX_STRINGS`.
fn check_strings(args: &[Vec<u8>], environment: &[Vec<u8>]) -> Result<(), ExecError> {
    let len = args.iter().chain(environment).map(|string| string.len() + 9).sum::<usize>();
    match len > MAX_STRINGS {
        true => Err(ExecError::new(Errno::E2BIG, "its arguments and environment are too long")),
        false => Ok(()),
    }
}

/// Error of a file that cannot be used; names the file if it is not the one requested.
fn not_opened(errno: Errno, asked: &[u8], opened: &[u8]) -> ExecError {
    let error = ExecError::from(errno);
    if asked == opened {
        return error;
    }
    let name = String::from_utf8_lossy(opened);
    ExecError::new(errno, format!("its interpreter {name} cannot be used: {}", error.reason))
}

fn read_shebang(machine: &mut dyn Machine, file: &Executable) -> Result<Option<Shebang>, ExecError> {
    let mut start = [0; LINE_MAX];
    let got = machine.read_at(file.native, 0, &mut start)?;
    Ok(Shebang::parse(&start[..got]))
}

/// Closes the files of a program.
pub(super) fn close_program(machine: &mut dyn Machine, program: &Program) {
    for image in [Some(&program.image), program.interpreter.as_ref()].into_iter().flatten() {
        machine.close(image.file.native);
    }
}
