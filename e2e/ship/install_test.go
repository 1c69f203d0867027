package ship

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// here is the name of this system's archive.
func here(t *testing.T) string {
	t.Helper()
	if !built(runtime.GOOS+"/"+runtime.GOARCH) || runtime.GOOS == "windows" {
		t.Skip("no archive for this system was built")
	}
	return "purser_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
}

// releases serves files as a release page does, and returns install.sh with its address in it.
func releases(t *testing.T, dir string) (address, script string) {
	t.Helper()
	files := http.NewServeMux()
	for _, at := range []string{"/latest/download/", "/download/" + version + "/"} {
		files.Handle(at, http.StripPrefix(at, http.FileServer(http.Dir(dir))))
	}
	server := httptest.NewServer(files)
	t.Cleanup(server.Close)
	text := readFile(t, filepath.Join(dir, "install.sh"))
	own := strings.Replace(text, "\nreleases=https://github.com/purserpay/purser/releases\n", "\nreleases="+server.URL+"\n", 1)
	if own == text {
		t.Fatal("install.sh does not name its releases")
	}
	script = filepath.Join(t.TempDir(), "install.sh")
	if err := os.WriteFile(script, []byte(own), 0o755); err != nil {
		t.Fatal(err)
	}
	return server.URL, script
}

// shells are commands that read scripts; those that are not here are left out.
func shells() (list [][]string) {
	for _, shell := range [][]string{{"sh"}, {"dash"}, {"bash"}, {"busybox", "sh"}} {
		if _, err := exec.LookPath(shell[0]); err == nil {
			list = append(list, append(shell, "-u"))
		}
	}
	return list
}

// install runs install.sh and returns what it says.
func install(t *testing.T, settings, shell []string, script string, arguments ...string) (string, error) {
	t.Helper()
	all := append(append(append([]string{}, shell[1:]...), script), arguments...)
	return try(t, runTime, settings, shell[0], all...)
}

// A single command installs the release, in every shell, and the installed purser buys.
func TestInstall(t *testing.T) {
	here(t)
	_, script := releases(t, distFolder(t))
	installed := ""
	for _, shell := range shells() {
		for _, arguments := range [][]string{nil, {"--version", version}, {"--version=" + strings.TrimPrefix(version, "v")}} {
			dir := filepath.Join(t.TempDir(), "some where", "bin")
			said, err := install(t, nil, shell, script, append(arguments, "--dir", dir)...)
			if err != nil || !strings.Contains(said, "installed "+dir+"/purser: purser "+shown) && !strings.Contains(said, "installed "+dir+"/purser: "+version) {
				t.Fatalf("%v %v: %v\n%s", shell, arguments, err, said)
			}
			if !strings.Contains(said, dir+" is not in your PATH") && !strings.Contains(said, "another purser") {
				t.Errorf("%v says nothing of PATH:\n%s", shell, said)
			}
			requireAlone(t, dir, "purser", "purser-sandbox")
			installed = filepath.Join(dir, "purser")
		}
	}

	w := world(t)
	p := process.NewPurser(t, installed, filepath.Join(t.TempDir(), "data"), "PURSER_KEY="+deployment,
		"PURSER_UPSTREAM="+w.SellerDirectURL(), "PURSER_FACILITATOR_URL="+w.FacilitatorURL(), "PURSER_RPC_URL="+w.RPCURL())
	p.Config = process.Shipped(t, process.ProxyBlock, sellers(w))
	p.Start(t)
	fund(t, w, p.URL(""), p.SidecarURL()).everywhere(t)
	p.End(t)
}

// The script installs nothing that is not the release's.
func TestInstallRefuses(t *testing.T) {
	archive := here(t)
	whole := distFolder(t)
	text, err := os.ReadFile(filepath.Join(whole, archive))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(text)
	damaged[len(damaged)/2] ^= 1
	sums := readFile(t, filepath.Join(whole, "SHA256SUMS"))
	bin := t.TempDir() // another system
	if err := os.WriteFile(filepath.Join(bin, "uname"), []byte("#!/bin/sh\n[ $1 = -s ] && echo $SYSTEM || echo $MACHINE\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + bin + ":" + os.Getenv("PATH")
	for name, c := range map[string]struct {
		archive        []byte
		sums           string
		settings, more []string
		says           string
	}{
		"damaged":         {archive: damaged, sums: sums, says: "is not what its SHA256SUMS says; nothing was installed"},
		"cut off":         {archive: text[:len(text)/2], sums: sums, says: "is not what its SHA256SUMS says"},
		"no sum":          {archive: text, sums: strings.ReplaceAll(sums, archive, "x"+archive), says: "does not name " + archive},
		"no archive":      {sums: sums, says: "cannot fetch"},
		"no such release": {archive: text, sums: sums, more: []string{"--version", "v9.9.9"}, says: "cannot fetch"},
		"no version":      {archive: text, sums: sums, more: []string{"--version", "../x"}, says: "is not a version"},
		"no value":        {archive: text, sums: sums, more: []string{"--version"}, says: "--version needs a value"},
		"unknown option":  {archive: text, sums: sums, more: []string{"--force"}, says: "--force is not known"},
		"system":          {archive: text, sums: sums, settings: []string{path, "SYSTEM=Plan9", "MACHINE=x86_64"}, says: "no release for Plan9"},
		"processor":       {archive: text, sums: sums, settings: []string{path, "SYSTEM=Linux", "MACHINE=sparc64"}, says: "no release for sparc64"},
		"Windows":         {archive: text, sums: sums, settings: []string{path, "SYSTEM=MINGW64_NT-10.0", "MACHINE=x86_64"}, says: "purser_windows_amd64.zip"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string][]byte{archive: c.archive, "SHA256SUMS": []byte(c.sums), "install.sh": []byte(readFile(t, filepath.Join(whole, "install.sh")))} {
				if text != nil {
					if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			_, script := releases(t, dir)
			for _, shell := range shells() {
				into := t.TempDir()
				said, err := install(t, c.settings, shell, script, append([]string{"--dir", into}, c.more...)...)
				if err == nil || !strings.Contains(said, c.says) {
					t.Errorf("%v: %v\n%s", shell, err, said)
				}
				requireAlone(t, into)
			}
		})
	}
}

// A script that was cut off on its way does nothing.
func TestInstallCutOff(t *testing.T) {
	here(t)
	_, script := releases(t, distFolder(t))
	text := readFile(t, script)
	for _, part := range []int{4, 3, 2} {
		if err := os.WriteFile(script, []byte(text[:len(text)-len(text)/part]), 0o755); err != nil {
			t.Fatal(err)
		}
		into := t.TempDir()
		said, _ := install(t, nil, []string{"sh"}, script, "--dir", into)
		if strings.Contains(said, "installed") {
			t.Errorf("half a script says %s", said)
		}
		requireAlone(t, into)
	}
}

// Without curl, wget does it; and the program that runs keeps its file when another one takes its name.
func TestInstallWithWget(t *testing.T) {
	here(t)
	bin := t.TempDir()
	for _, name := range []string{"sh", "uname", "sed", "cut", "tar", "gzip", "mktemp", "cp", "chmod", "mv", "rm", "mkdir", "sha256sum", "wget"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("there is no %s", name)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, script := releases(t, distFolder(t))
	into := t.TempDir()
	if err := os.WriteFile(filepath.Join(into, "purser"), []byte("an earlier one"), 0o755); err != nil {
		t.Fatal(err)
	}
	earlier, err := os.Open(filepath.Join(into, "purser"))
	if err != nil {
		t.Fatal(err)
	}
	defer earlier.Close()
	if said, err := install(t, []string{"PATH=" + bin}, []string{"sh", "-u"}, script, "--dir", into); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	first := make([]byte, 14)
	if _, err := earlier.Read(first); err != nil || string(first) != "an earlier one" {
		t.Errorf("the earlier file now has %q, %v", first, err)
	}
	requireAlone(t, into, "purser", "purser-sandbox")
}

// requireAlone fails unless a folder has these files only. It need not exist if there are none.
func requireAlone(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || len(names) != 0) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("%s has %q, not %q", dir, got, names)
	}
}

// A user who may not write to /usr/local/bin gets it into a folder of their own.
func TestInstallForOneself(t *testing.T) {
	here(t)
	_, script := releases(t, distFolder(t))
	home, err := os.MkdirTemp("", "purser-ship-home-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	text := readFile(t, script)
	cmd := exec.CommandContext(t.Context(), "sh", "-u", "-s") // as it comes out of a pipe
	cmd.Env, cmd.Dir, cmd.Stdin = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, home, strings.NewReader(text)
	if os.Geteuid() == 0 {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if err := os.Chown(home, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	} else if os.WriteFile("/usr/local/bin/.purser-ship", nil, 0o600) == nil {
		_ = os.Remove("/usr/local/bin/.purser-ship")
		t.Skip("this user may write to /usr/local/bin")
	}
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "installed "+home+"/.local/bin/purser: ") {
		t.Fatalf("%v\n%s", err, said)
	}
	requireAlone(t, filepath.Join(home, ".local/bin"), "purser", "purser-sandbox")
}
