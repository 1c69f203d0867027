package ship

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
)

// packaged are files that both packages have.
var packaged = []string{
	"/usr/bin/purser", "/usr/bin/purser-sandbox", "/etc/purser/Caddyfile", "/etc/purser/purser.env", "/usr/lib/systemd/system/purser.service",
	"/usr/lib/sysusers.d/purser.conf", "/usr/share/doc/purser/NOTICES", "/usr/share/man/man8/purser.8.gz",
	"/usr/share/bash-completion/completions/purser", "/usr/share/fish/vendor_completions.d/purser.fish",
}

// The .deb has the program, the service and its configuration, which an upgrade leaves alone.
func TestDeb(t *testing.T) {
	deb := needed.Program(t, "Debian: package dpkg", "dpkg-deb")
	for _, arch := range []string{"amd64", "arm64"} {
		if !built("linux/" + arch) {
			continue
		}
		path := filepath.Join(distFolder(t), "purser_linux_"+arch+".deb")
		root, control := t.TempDir(), t.TempDir()
		run(t, runTime, nil, deb, "--extract", path, root)
		run(t, runTime, nil, deb, "--control", path, control)
		for _, name := range append(packaged, "/usr/share/doc/purser/copyright", "/usr/share/zsh/vendor-completions/_purser") {
			if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, want := range map[string]fs.FileMode{"usr/bin/purser": 0o755, "usr/bin/purser-sandbox": 0o755, "etc/purser/purser.env": 0o640, "etc/purser/Caddyfile": 0o644} {
			if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
			}
		}
		if text := readFile(t, filepath.Join(control, "conffiles")); text != "/etc/purser/Caddyfile\n/etc/purser/purser.env\n" {
			t.Errorf("configuration files: %q", text)
		}
		for _, want := range []string{"Package: purser\n", "Architecture: " + arch + "\n", "Version: 0.0.0~ship\n"} {
			if text := readFile(t, filepath.Join(control, "control")); !strings.Contains(text, want) {
				t.Errorf("control does not say %q:\n%s", want, text)
			}
		}
		for script, source := range map[string]string{"postinst": "postinstall.sh", "prerm": "preremove.sh", "postrm": "postremove.sh"} {
			if readFile(t, filepath.Join(control, script)) != readFile(t, filepath.Join(process.Root(), "deploy/packages", source)) {
				t.Errorf("%s is not deploy/packages/%s", script, source)
			}
		}
		unit := readFile(t, filepath.Join(root, "usr/lib/systemd/system/purser.service"))
		for _, place := range []string{"/usr/bin/purser", "/etc/purser/Caddyfile", "/etc/purser/purser.env"} {
			if !strings.Contains(unit, place) {
				t.Errorf("the unit does not name %s", place)
			}
		}
	}
}

// The .rpm has the same.
func TestRPM(t *testing.T) {
	rpm := needed.Program(t, "Debian: package rpm", "rpm")
	for arch, named := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		if !built("linux/" + arch) {
			continue
		}
		path := filepath.Join(distFolder(t), "purser_linux_"+arch+".rpm")
		ask := func(arguments ...string) string {
			return run(t, runTime, nil, rpm, append(append([]string{"--dbpath", t.TempDir(), "--query", "--package"}, arguments...), path)...)
		}
		run(t, runTime, nil, rpm, "--dbpath", t.TempDir(), "--checksig", path)
		list := ask("--queryformat", `[%{FILENAMES} %{FILEMODES:perms}\n]`)
		for _, name := range append(packaged, "/usr/share/licenses/purser/LICENSE", "/usr/share/zsh/site-functions/_purser") {
			if !strings.Contains(list, name+" -") {
				t.Errorf("it has no %s:\n%s", name, list)
			}
		}
		if !strings.Contains(list, "/etc/purser/purser.env -rw-r-----\n") {
			t.Errorf("everybody may read purser.env:\n%s", list)
		}
		if text := ask("--configfiles"); text != "/etc/purser/Caddyfile\n/etc/purser/purser.env\n" {
			t.Errorf("configuration files: %q", text)
		}
		if text := ask("--queryformat", "%{NAME} %{VERSION} %{ARCH} %{LICENSE}"); text != "purser 0.0.0~ship "+named+" Apache-2.0" {
			t.Errorf("it is %q", text)
		}
		for _, source := range []string{"postinstall.sh", "preremove.sh", "postremove.sh"} {
			if want := readFile(t, filepath.Join(process.Root(), "deploy/packages", source)); !strings.Contains(ask("--scripts"), strings.TrimSpace(want)) {
				t.Errorf("its scripts lack deploy/packages/%s", source)
			}
		}
	}
}

// An installation makes the user and starts nothing. dpkg keeps the group of purser.env in an upgrade, and rpm does not.
func TestPackageScripts(t *testing.T) {
	for name, c := range map[string]struct {
		script, arguments string
		does              string
	}{
		"deb, first":       {"postinstall.sh", "configure", "getent passwd purser|systemd-sysusers purser.conf|chgrp purser /etc/purser/purser.env"},
		"deb, upgrade":     {"postinstall.sh", "configure 0.1", "getent passwd purser|systemd-sysusers purser.conf"},
		"deb, taken back":  {"postinstall.sh", "abort-upgrade 0.2", ""},
		"rpm, first":       {"postinstall.sh", "1", "getent passwd purser|systemd-sysusers purser.conf|chgrp purser /etc/purser/purser.env"},
		"rpm, upgrade":     {"postinstall.sh", "2", "getent passwd purser|systemd-sysusers purser.conf|chown --from=:root :purser /etc/purser/purser.env"},
		"deb, old goes":    {"preremove.sh", "upgrade 0.2", ""},
		"rpm, old goes":    {"preremove.sh", "1", ""},
		"rpm, the last":    {"postremove.sh", "0", ""},
		"deb, purge":       {"postremove.sh", "purge", ""},
		"deb, nothing new": {"postremove.sh", "upgrade 0.2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			stub := "#!/bin/sh\necho \"${0##*/} $*\" >>\"" + bin + "/called\"\n"
			for program, more := range map[string]string{"getent": "exit 2\n", "systemd-sysusers": "", "useradd": "", "chgrp": "", "chown": ""} {
				if err := os.WriteFile(filepath.Join(bin, program), []byte(stub+more), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			// Where systemd runs, the scripts ask it to read its files again, and never to start what is not running.
			systemctl := "#!/bin/sh\ncase $1 in daemon-reload | try-restart) ;; *) echo \"systemctl $*\" >>\"" + bin + "/called\" ;; esac\n"
			if err := os.WriteFile(filepath.Join(bin, "systemctl"), []byte(systemctl), 0o755); err != nil {
				t.Fatal(err)
			}
			run(t, runTime, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, "sh", append([]string{"deploy/packages/" + c.script}, strings.Fields(c.arguments)...)...)
			called, _ := os.ReadFile(filepath.Join(bin, "called"))
			if got := strings.ReplaceAll(strings.TrimSpace(string(called)), "\n", "|"); got != c.does {
				t.Errorf("it does %q, not %q", got, c.does)
			}
		})
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
