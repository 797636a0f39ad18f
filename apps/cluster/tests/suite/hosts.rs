//! Nodes on other machines, as far as one machine can test them: through a script in place of ssh,
//! and through sshd on loopback.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::{CLUSTER, Place, copy, script, wait_until};

/// A script in place of ssh. It starts a separate process, without the mark in its environment.
const SSH: &str = "#!/bin/sh
shift
env -u CLUSTER_OF_LATCHWORK sh -c \"$*\"
exit $?
";

fn hosts(place: &Place) {
    fs::write(place.path("hosts"), "one 127.0.0.1\n# a comment\ntwo 127.0.0.1\n").expect("a file");
    script(&place.path("ssh"), SSH);
    // This directory also serves as the directory of the programs on the other machine.
    let to = place.path("cluster");
    copy(Path::new(CLUSTER), &to);
    let bin = place.directory.path().display().to_string();
    script(&place.path("etcd"), "#!/bin/sh\necho serving client traffic >&2\nexec sleep 100\n");
    fs::write(place.path("bin"), bin).expect("a file");
}

fn flags(place: &Place, ssh: &str) -> String {
    let bin = place.read("bin");
    format!(
        "--on ssh --hosts hosts --ssh {ssh} --bin {bin} --store etcd://127.0.0.1:1 --compute-nodes 3"
    )
}

#[test]
fn results_come_back_from_other_hosts_and_failures_say_where() {
    let place = Place::new();
    hosts(&place);
    let ended = place.run(&flags(&place, "./ssh"), "good");
    assert_eq!((ended.status, ended.out.as_str()), (Some(0), "good news\n"), "{}", ended.err);
    let run: Value = serde_json::from_str(&place.read("results/run.json")).expect("JSON");
    let of: Vec<_> =
        run["nodes"].as_array().expect("nodes").iter().map(|node| node["host"].clone()).collect();
    assert_eq!(of, ["one", "two", "one", "two"], "in turn");
    assert!(place.path("results/document.json").is_file());
    let ended = place.run(&format!("{} --grace 0", flags(&place, "./ssh")), "fails");
    assert_eq!(ended.status, Some(3), "{}", ended.err);
    assert!(
        ended.err.contains("cluster: C2 on one ended with status 3: program: it broke"),
        "{}",
        ended.err
    );
}

#[test]
fn when_the_connection_ends_so_does_the_other_side() {
    let place = Place::new();
    hosts(&place);
    let running = place.start_run(&flags(&place, "./ssh"), "hangs");
    place.wait_for("results/C3.err", "begun");
    running.signal("KILL");
    assert_eq!(running.wait().status, None, "and nothing of it is left");
}

#[test]
fn programs_are_copied_where_they_differ() {
    let place = Place::new();
    hosts(&place);
    let from = place.path("from");
    fs::create_dir(&from).expect("a directory");
    for name in ["memnode", "program"] {
        copy(&place.path(name), &from.join(name));
    }
    copy(Path::new(CLUSTER), &from.join("cluster"));
    let to = place.path("to/here");
    let run = || {
        let mut command = Command::new(from.join("cluster"));
        command.current_dir(place.directory.path());
        command.args(
            "run --on ssh --hosts hosts --ssh ./ssh --store etcd://127.0.0.1:1 --copy --bin"
                .split(' '),
        );
        command.arg(&to).args(["program", "--", "good"]).output().expect("the command")
    };
    let output = run();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let inode =
        |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("a copy"));
    let before = ["cluster", "memnode", "program"].map(|name| inode(&to.join(name)));
    script(&from.join("memnode"), &(place.read("memnode") + "# another\n"));
    assert!(run().status.success());
    let after = ["cluster", "memnode", "program"].map(|name| inode(&to.join(name)));
    assert_eq!((before[0], before[2]), (after[0], after[2]), "they are the same");
    assert_ne!(before[1], after[1], "it is another now");
    assert!(fs::read_to_string(to.join("memnode")).expect("a copy").ends_with("# another\n"));
}

/// An ssh daemon of the test, which accepts only the test's key.
struct Sshd {
    child: Child,
    /// The directory that the daemon needs, if the test made it.
    made: bool,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
        if self.made {
            _ = fs::remove_dir("/run/sshd");
        }
    }
}

fn sshd(place: &Place) -> Option<(Sshd, u16)> {
    let program =
        ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].iter().find(|path| Path::new(path).is_file())?;
    let file = |name: &str| place.path(name).display().to_string();
    for key in ["host-key", "own-key"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &file(key)])
            .status();
        made.ok().filter(std::process::ExitStatus::success)?;
    }
    fs::copy(place.path("own-key.pub"), place.path("authorized")).ok()?;
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let config = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 100\n",
        file("host-key"),
        file("authorized")
    );
    fs::write(place.path("sshd.conf"), config).ok()?;
    // The daemon needs this directory. Normally the daemon's start script makes it.
    let made = fs::create_dir("/run/sshd").is_ok();
    let mut command = Command::new(program);
    command.args(["-D", "-e", "-f", &file("sshd.conf")]).stdin(Stdio::null());
    let log = fs::File::create(place.path("sshd.log")).ok()?;
    let mut sshd = Sshd { child: command.stderr(log).stdout(Stdio::null()).spawn().ok()?, made };
    let listens = || {
        fs::read_to_string(place.path("sshd.log")).is_ok_and(|log| log.contains("Server listening"))
    };
    let is_up = wait_until(|| {
        listens()
            || fs::read_to_string(place.path("sshd.log")).is_ok_and(|log| log.contains("fatal"))
    });
    (is_up && listens() && matches!(sshd.child.try_wait(), Ok(None))).then_some((sshd, port))
}

#[test]
fn over_ssh_all_is_the_same() {
    let place = Place::new();
    hosts(&place);
    let Some((_sshd, port)) = sshd(&place) else {
        eprintln!("skipped: no sshd can be started here");
        return;
    };
    let user = String::from_utf8(Command::new("id").arg("-un").output().expect("id").stdout)
        .expect("a name");
    let user = user.trim();
    fs::write(place.path("hosts"), format!("{user}@127.0.0.1\n")).expect("a file");
    let ssh = format!(
        "#!/bin/sh\nexec ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
         -F none -i {} -p {port} \"$@\"\n",
        place.path("own-key").display()
    );
    script(&place.path("real-ssh"), &ssh);
    // The user may have no login shell. Then the daemon starts, but the user cannot log in.
    let mut login = Command::new(place.path("real-ssh"));
    login.arg(format!("{user}@127.0.0.1")).arg("true").stdin(Stdio::null());
    let login = login.output().expect("a shell");
    if !login.status.success() {
        let why = String::from_utf8_lossy(&login.stderr);
        eprintln!("skipped: {user} cannot log in here: {}", why.trim());
        return;
    }
    let flags = flags(&place, "./real-ssh");
    let ended = place.run(&flags, "good");
    assert_eq!((ended.status, ended.out.as_str()), (Some(0), "good news\n"), "{}", ended.err);
    let running = place.start_run(&flags, "hangs");
    place.wait_for("results/C3.err", "begun");
    let remote = || {
        let named = |pid: u32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let text = String::from_utf8_lossy(&command).replace('\0', " ");
            text.contains(&place.read("bin")) && text.contains("program") && !text.contains("sshd")
        };
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| named(*pid))
            .count()
    };
    assert!(remote() > 0, "they are there");
    running.signal("KILL");
    assert_eq!(running.wait().status, None);
    assert!(wait_until(|| remote() == 0), "the other side has ended as well");
}
