package ship

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// distTime bounds the builds for all platforms, with nothing in Go's caches.
const distTime = 50 * time.Minute

var platforms = flag.String("ship.platforms", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64",
	"what deploy/dist.sh builds for; each takes minutes the first time")

var dist struct {
	once sync.Once
	path string
	err  error
	said string
}

// distFolder returns what deploy/dist.sh makes, built once.
func distFolder(t *testing.T) string {
	t.Helper()
	dist.once.Do(func() {
		if dist.path, dist.err = os.MkdirTemp("", "purser-ship-"); dist.err == nil {
			dist.said, dist.err = try(t, distTime, append(identity(), "PLATFORMS="+*platforms), "deploy/dist.sh", dist.path)
		}
	})
	if dist.err != nil {
		t.Fatalf("%v\n%s", dist.err, dist.said)
	}
	return dist.path
}

// built returns whether deploy/dist.sh was told to build for a platform.
func built(platform string) bool { return slices.Contains(strings.Fields(*platforms), platform) }

// file is an entry of an archive.
type file struct {
	text []byte
	mode fs.FileMode
}

// unpackArchive returns the files of a .tar.gz or a .zip by their names.
func unpackArchive(t *testing.T, path string) map[string]file {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]file{}
	add := func(name string, mode fs.FileMode, from io.Reader) {
		text, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file{text, mode}
	}
	if strings.HasSuffix(path, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			from, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(f.Name, f.Mode(), from)
		}
		return files
	}
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s: %s belongs to %d:%d", path, h.Name, h.Uid, h.Gid)
		}
		add(h.Name, h.FileInfo().Mode(), r)
	}
}

// Each platform's archive has the programs for it and what must accompany it.
func TestArchives(t *testing.T) {
	dir := distFolder(t)
	for _, platform := range strings.Fields(*platforms) {
		goos, arch, _ := strings.Cut(platform, "/")
		name := "purser_" + goos + "_" + arch
		archive, program, sandbox, more := name+".tar.gz", "purser", "purser-sandbox", []string{"man/purser.8", "man/purser-init.8"}
		switch goos {
		case "windows":
			archive, program, sandbox, more = name+".zip", "purser.exe", "purser-sandbox.exe", []string{"completions/purser.ps1"}
		case "linux":
			more = append(more, "systemd/purser.service", "systemd/purser.sysusers", "systemd/purser.env", "systemd/Caddyfile")
		}
		files := unpackArchive(t, filepath.Join(dir, archive))
		for _, want := range append(more, program, sandbox, "LICENSE", "NOTICES", "README.md", "completions/purser.bash", "completions/_purser", "completions/purser.fish") {
			if f := files[name+"/"+want]; len(f.text) == 0 || (f.mode.Perm() == 0o755) != (want == program || want == sandbox) {
				t.Errorf("%s: %s has %d bytes and mode %v", archive, want, len(f.text), f.mode)
			}
		}
		for path := range files {
			if !strings.HasPrefix(path, name+"/") || strings.Contains(path, "..") {
				t.Errorf("%s: %s is not in its folder", archive, path)
			}
		}
		info, err := buildinfo.Read(bytes.NewReader(files[name+"/"+program].text))
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
		said := map[string]string{}
		for _, s := range info.Settings {
			said[s.Key] = s.Value
		}
		if said["GOOS"] != goos || said["GOARCH"] != arch || said["CGO_ENABLED"] != "0" || said["-trimpath"] != "true" {
			t.Errorf("%s: built with %v", archive, said)
		}
		if !bytes.Contains(files[name+"/NOTICES"].text, []byte("\ngithub.com/caddyserver/caddy/v2 v")) {
			t.Errorf("%s: NOTICES has no licence of Caddy", archive)
		}
		var bill struct {
			BOMFormat  string
			Components []struct{ Name string }
		}
		text, err := os.ReadFile(filepath.Join(dir, name+".cdx.json"))
		if err == nil {
			err = json.Unmarshal(text, &bill)
		}
		if err != nil || bill.BOMFormat != "CycloneDX" || len(bill.Components) < len(info.Deps) {
			t.Errorf("%s: %v, a bill of %d for %d modules", name, err, len(bill.Components), len(info.Deps))
		}
	}
}

// SHA256SUMS has each file, and no other.
func TestSums(t *testing.T) {
	dir := distFolder(t)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := sumsOf(t, dir)
	if len(sums) != len(entries)-1 || len(sums) < 5 {
		t.Errorf("%d sums of %d files", len(sums), len(entries)-1)
	}
	for name, want := range sums {
		if got := sum(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s has the sum %s, not %s", name, got, want)
		}
	}
}

// sumsOf reads SHA256SUMS.
func sumsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	return sums
}

// The formula is Ruby, and each address in it is followed by the sum of that archive.
func TestFormula(t *testing.T) {
	dir := distFolder(t)
	path := filepath.Join(dir, "purser.rb")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		run(t, runTime, nil, ruby, "-c", path)
	}
	if !strings.Contains(string(text), "\n  version \""+strings.TrimPrefix(version, "v")+"\"\n") {
		t.Errorf("the formula does not say its version:\n%s", text)
	}
	sums := sumsOf(t, dir)
	for _, platform := range []string{"darwin/arm64", "darwin/amd64", "linux/arm64", "linux/amd64"} {
		archive := "purser_" + strings.ReplaceAll(platform, "/", "_") + ".tar.gz"
		want := "url \"https://github.com/purserpay/purser/releases/download/" + version + "/" + archive + "\"\n      sha256 \"" + sums[archive] + "\"\n"
		if built(platform) && !strings.Contains(string(text), want) {
			t.Errorf("the formula does not say %s:\n%s", want, text)
		}
	}
}

// A second run gives the same bytes, packages included.
func TestDistIsReproducible(t *testing.T) {
	if !built("linux/amd64") {
		t.Skip("-ship.platforms leaves out linux/amd64")
	}
	first, second := distFolder(t), t.TempDir()
	run(t, buildTime, append(identity(), "PLATFORMS=linux/amd64"), "deploy/dist.sh", second)
	sums := sumsOf(t, first)
	for name, got := range sumsOf(t, second) {
		if name != "purser.rb" && got != sums[name] {
			t.Errorf("%s differs from one run to the next", name)
		}
	}
}
