//! Scripts for a machine, for any POSIX shell with the usual programs (`date` with nanoseconds, `mktemp`,
//! `grep`, `sed`, `tar`).
//!
//! All processes of the run have a variable in their environment that identifies them, even if they have
//! become daemons.

use belljar_base::SimTime;
use belljar_plan::ProcessPlan;
use std::fmt::Write;

/// Environment variable that identifies a run's processes.
pub const MARK: &str = "BELLJAR_DEPLOYMENT";

/// Quotes a word for the shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The script that a machine's shell reads first: it creates the run's folder in `base`, and serves requests
/// until its input ends.
pub fn supervisor(id: &str, base: &str) -> String {
    let (id, base) = (quoted(id), quoted(base));
    format!(
        r#"belljar_main() {{
LC_ALL=C; export LC_ALL
id={id}; base={base}
d=$(mktemp -d "$base/belljar-XXXXXXXX" 2>&1) || {{ echo "unfit no folder can be made there: $d"; exit 1; }}
end_all() {{
  n=0
  while [ $n -lt 60 ]; do
    pids=$(grep -l "{MARK}=$id" /proc/[0-9]*/environ 2>/dev/null | sed 's,^/proc/\([0-9]*\)/.*,\1,')
    [ -z "$pids" ] && return
    kill -KILL $pids 2>/dev/null
    n=$((n + 1))
    [ $n -gt 3 ] && sleep 0.1
  done
}}
leave() {{
  trap '' HUP INT TERM PIPE; trap - EXIT; end_all; cd /
  # Programs may have made directories that nobody may write to.
  rm -rf "$d" 2> /dev/null || {{ chmod -R u+rwx "$d" 2> /dev/null; rm -rf "$d"; }}
}}
trap 'exit 1' HUP INT TERM PIPE
trap leave EXIT
# A machine that hears nothing for long while programs run is cut off from the command, which cannot tell it to end.
watch() {{
  : > "$d/alive"
  while {MARK}=$id sleep 30; do
    [ -e "$d/alive" ] || {{ kill -KILL $$; leave; exit; }}
    rm -f "$d/alive"
  done
}}
echo "ready $d $(uname -m)"
while read -r word rest; do
  case $word in
  time) echo "time $(date +%s%N)" ;;
  alive) : > "$d/alive" ;;
  check) sh "$d/check.sh" "$d" < /dev/null 2>&1 ;;
  go) watch < /dev/null > /dev/null 2>&1 &
    {{ {MARK}=$id $wrap sh "$d/run.sh" $rest "$d" < /dev/null > "$d/state/log" 2>&1; echo finished; }} & ;;
  names) wrap="$rest -- sh $d/names.sh $d/hosts.txt" ;;
  stop) end_all; echo stopped ;;
  quit) leave; echo gone; exit 0 ;;
  esac
done
}}
wrap=
belljar_main
"#
    )
}

/// Adds the experiment's names to the hosts file of a command, in a mount namespace.
pub const NAMES: &str = "cat /etc/hosts >> \"$1\"; mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"\n";

/// The script that checks a machine. It prints `missing PROGRAM` for each missing program, and the kind of
/// name resolution: `names known`, `names WRAPPER` or `names unknown`.
pub fn check(programs: &[&str], names: &[(String, String)]) -> String {
    let mut text = String::from("cd /\n");
    for program in programs {
        let name = program.rsplit('/').next().unwrap_or(program);
        let _ = writeln!(
            text,
            "[ -x {0} ] || command -v {1} > /dev/null || echo missing {0}",
            quoted(program),
            quoted(name)
        );
    }
    // Stops at the first unknown name: without a reachable name server each lookup takes seconds.
    text += "known=1\n";
    for (address, name) in names {
        let _ = writeln!(
            text,
            "[ -z \"$known\" ] || [ \"$(getent hosts {1} 2>/dev/null | sed 's/ .*//; q')\" = {0} ] || known=",
            quoted(address),
            quoted(name)
        );
    }
    text += "if [ -n \"$known\" ]; then echo names known\n\
        elif unshare -m mount --bind \"$1/hosts.txt\" /etc/hosts 2>/dev/null; then echo names unshare -m\n\
        elif unshare -rm mount --bind \"$1/hosts.txt\" /etc/hosts 2>/dev/null; then echo names unshare -rm\n\
        else echo names unknown; fi\n";
    text
}

/// A process in a run's script.
pub struct Start<'a> {
    /// Number of the process on the machine.
    pub number: usize,
    /// Name of its host.
    pub host: &'a str,
    /// Start parameters.
    pub plan: &'a ProcessPlan,
}

/// The script that starts and stops processes. Its arguments are the start time in nanoseconds of the
/// machine's clock, and the folder.
pub fn run(starts: &[Start<'_>]) -> String {
    let mut text = String::from(
        r#"t0=$1; d=$2
until_() {
  while :; do
    left=$(($1 - $(date +%s%N)))
    [ $left -le 0 ] && return
    sleep "$((left / 1000000000)).$(printf %09d $((left % 1000000000)))"
  done
}
run() {
  until_ $((t0 + $3))
  cd "$d/hosts/$2"
  at=$(date +%s%N)
  sh "$d/p/$1" "$d" < /dev/null > "$d/state/$1.stdout" 2> "$d/state/$1.stderr" &
  c=$!
  echo "$c $at" > "$d/state/$1.start"
  s=
  if [ -n "$4" ]; then
    ( until_ $((t0 + $4)); kill -$5 $c ) 2>/dev/null &
    s=$!
  fi
  wait $c
  r=$?
  echo "$r $(date +%s%N)" > "$d/state/$1.end"
  [ -n "$s" ] && kill $s 2>/dev/null
}
"#,
    );
    for start in starts {
        let plan = start.plan;
        if plan.start == SimTime::MAX {
            continue;
        }
        let shutdown = plan.shutdown.map_or(String::new(), |at| at.as_nanos().to_string());
        let (at, signal) = (plan.start.as_nanos(), plan.shutdown_signal.number());
        let _ = writeln!(text, "run {} {} {at} '{shutdown}' {signal} &", start.number, quoted(start.host));
    }
    text += "wait\n";
    text
}

/// The script of one process, which finally executes the program. `program` and `args` are shell words; `$1`
/// is the folder.
pub fn process(program: &str, name: &str, args: &[String], environment: &[(String, String)]) -> String {
    let mut text = format!("d=$1\np={program}\n[ -x \"$p\" ] || p=$(command -v {})\n", quoted(name));
    // A shell's background processes ignore these signals.
    let _ = writeln!(text, "r=--default-signal=INT,QUIT\nenv $r true 2> /dev/null || r=");
    text += "exec env $r -i";
    let _ = write!(text, " \"{MARK}=${MARK}\"");
    for (variable, value) in environment {
        let _ = match (&**variable, &**value) {
            ("HOME", "/root") => write!(text, " \"HOME=$HOME\""),
            _ => write!(text, " {}", quoted(&format!("{variable}={value}"))),
        };
    }
    let _ = writeln!(text, " \"$p\" {}", args.join(" "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn words_reach_programs_as_they_are() {
        for word in ["plain", "two words", "it's", "$HOME `x` \\ \"q\"", "", "-n", "a\nb"] {
            let script = process("'/usr/bin/printf'", "printf", &["%s".into(), quoted(word)], &[]);
            let done =
                Command::new("/bin/sh").args(["-c", &script, "sh", "/tmp"]).env(MARK, "x").output().unwrap();
            assert_eq!(
                String::from_utf8_lossy(&done.stdout),
                *word,
                "{}",
                String::from_utf8_lossy(&done.stderr)
            );
        }
    }

    #[test]
    fn programs_have_the_environment_that_they_are_given_and_the_mark() {
        let given = [("A".to_owned(), "1 2'3".to_owned()), ("HOME".to_owned(), "/root".to_owned())];
        let script = process("'/usr/bin/env'", "env", &[], &given);
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", &script, "sh", "/tmp"])
            .env(MARK, "x")
            .env("HOME", "/home/of/the/machine")
            .env("B", "2");
        let mut seen: Vec<String> =
            String::from_utf8_lossy(&shell.output().unwrap().stdout).lines().map(str::to_owned).collect();
        seen.sort();
        assert_eq!(seen, ["A=1 2'3", "BELLJAR_DEPLOYMENT=x", "HOME=/home/of/the/machine"]);
    }
}
