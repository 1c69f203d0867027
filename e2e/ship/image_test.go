package ship

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

// user is the user id of purser in the image.
const user = 65532

// image is a built image, unpacked.
type image struct {
	// Root is the folder with its files. They are the test's own, with the modes of the image.
	Root   string
	Config imageConfig
	// Named tells whether purser in it was built as the version of these tests.
	Named bool
	files map[string]*tar.Header
}

// imageConfig is the part of an image's configuration that runtimes heed.
type imageConfig struct {
	User        string
	Env         []string
	Entrypoint  []string
	Cmd         []string
	WorkingDir  string
	Volumes     map[string]struct{}
	Healthcheck struct{ Test []string }
	StopSignal  string
}

// unpack reads an image that was written as files: a manifest, a configuration and layers.
func unpack(t *testing.T, from, root string) image {
	t.Helper()
	var manifest struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	var config struct{ Config imageConfig }
	blob := func(digest string) []byte {
		text, err := os.ReadFile(filepath.Join(from, strings.TrimPrefix(digest, "sha256:")))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if err := json.Unmarshal(blob("manifest.json"), &manifest); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(blob(manifest.Config.Digest), &config); err != nil {
		t.Fatal(err)
	}
	i := image{Root: root, Config: config.Config, files: map[string]*tar.Header{}}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, l := range manifest.Layers {
		i.add(t, blob(l.Digest))
	}
	return i
}

// add unpacks one layer.
func (i *image) add(t *testing.T, layer []byte) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Trim(filepath.Clean("/"+h.Name), "/")
		i.files[name] = h
		path := filepath.Join(i.Root, name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, h.FileInfo().Mode().Perm()))
		case tar.TypeReg:
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, text, h.FileInfo().Mode().Perm())
			}
		default:
			t.Fatalf("%s is neither a file nor a folder", h.Name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The image holds one static program and the files it needs, all owned by root. The program runs as
// a user without rights.
func TestImage(t *testing.T) {
	i := newBuilder(t).fromBinary(t, releaseBinary(t))
	i.Named = os.Getenv("PURSER_RELEASE_BIN") == ""
	i.check(t)
}

// The Containerfile makes the same image from nothing but the source, which it does when it is asked for nothing else.
func TestImageFromSource(t *testing.T) {
	i := newBuilder(t).fromSource(t)
	i.Named = true
	i.check(t)
}

// check makes the checks that every image must pass.
func (i image) check(t *testing.T) {
	t.Helper()
	t.Run("configuration", func(t *testing.T) {
		c := i.Config
		if c.User != "65532:65532" {
			t.Errorf("it runs as %q", c.User)
		}
		if got := strings.Join(append(c.Entrypoint, c.Cmd...), " "); got != "/usr/bin/purser run --config /etc/purser/Caddyfile" {
			t.Errorf("it runs %q", got)
		}
		if len(c.Healthcheck.Test) < 3 || c.Healthcheck.Test[0] != "CMD" || c.Healthcheck.Test[2] != "status" {
			t.Errorf("its health check is %q", c.Healthcheck.Test)
		}
		if _, there := c.Volumes["/data"]; !there {
			t.Error("/data is not a volume")
		}
		for _, setting := range []string{
			"PURSER_BIND=0.0.0.0", "PURSER_REGISTRATION=off", "PURSER_DATA_DIR=/data", "PURSER_ADMIN=unix//data/admin.sock|0600",
			"XDG_CONFIG_HOME=/data/config", "XDG_DATA_HOME=/data/share",
		} {
			if !slices.Contains(c.Env, setting) {
				t.Errorf("%s is missing in %q", setting, c.Env)
			}
		}
	})

	t.Run("files", func(t *testing.T) {
		var size int64
		for name, h := range i.files {
			size += h.Size
			owner, mode := 0, fs.FileMode(0o755)
			switch {
			case name == "data", name == "tmp":
				owner, mode = user, 0o700
			case name != "usr/bin/purser" && h.Typeflag == tar.TypeReg:
				mode = 0o644
			}
			if h.Uid != owner || h.Gid != owner || h.FileInfo().Mode().Perm() != mode {
				t.Errorf("%s belongs to %d:%d with mode %v", name, h.Uid, h.Gid, h.FileInfo().Mode())
			}
		}
		if size > 72<<20 { // the driver of PostgreSQL is in it, too
			t.Errorf("the image has %d MiB", size>>20)
		}
		t.Logf("%d files and folders, %.1f MiB", len(i.files), float64(size)/(1<<20))
	})

	t.Run("certificates", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(i.Root, "etc/ssl/certs/ca-certificates.crt"))
		if err != nil {
			t.Fatal(err)
		}
		authorities := 0
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if _, err := x509.ParseCertificate(block.Bytes); err == nil {
				authorities++
			}
		}
		if authorities < 50 {
			t.Errorf("only %d public authorities", authorities)
		}
	})

	t.Run("licences", func(t *testing.T) {
		for name, says := range map[string]string{"LICENSE": "Apache License", "NOTICES": "\ngithub.com/caddyserver/caddy/v2 v2."} {
			text, err := os.ReadFile(filepath.Join(i.Root, "usr/share/doc/purser", name))
			if err != nil || !strings.Contains(string(text), says) {
				t.Errorf("%s does not name %q: %v, %d bytes", name, says, err, len(text))
			}
		}
	})

	t.Run("runs", func(t *testing.T) { i.runs(t) })
}

// Both ways to the image end in the same one, whatever engine takes them.
func TestContainerfile(t *testing.T) {
	if podman, docker := sum(t, filepath.Join(process.Root(), ".containerignore")), sum(t, filepath.Join(process.Root(), ".dockerignore")); podman != docker {
		t.Error(".containerignore and .dockerignore differ")
	}
	text, err := os.ReadFile(filepath.Join(process.Root(), "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	stages := map[string][]string{}
	var stage string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if rest, is := strings.CutPrefix(line, "FROM "); is {
			from, name, _ := strings.Cut(rest, " AS ")
			stage = name
			line = "FROM " + from
		}
		if stage != "" && line != "" && !strings.HasPrefix(line, "#") {
			line = strings.ReplaceAll(line, "--from=build ", "")
			stages[stage] = append(stages[stage], strings.ReplaceAll(line, " /out/image/", " bin/image/"))
		}
	}
	if len(stages["binary"]) < 4 || !slices.Equal(stages["binary"], stages["source"]) {
		t.Errorf("from a binary:\n%s\nfrom source:\n%s", strings.Join(stages["binary"], "\n"), strings.Join(stages["source"], "\n"))
	}
}
