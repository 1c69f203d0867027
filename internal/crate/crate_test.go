package crate_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/purserpay/purser/internal/crate"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A crate has no name until it is delivered, is for its owner only, and is delivered once.
func TestCrate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"purser", "purser.tar"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			parts := []crate.Part{
				crate.File("purser-data/pki/root.key", write(t, filepath.Join(dir, "root.key"), "root")),
				crate.File("purser.env", write(t, filepath.Join(dir, "env"), "A=b")),
			}
			to := filepath.Join(dir, name)
			first, err := crate.Pack(t.Context(), to, parts)
			if err != nil || first.Files != 2 || first.Bytes != 7 {
				t.Fatalf("%+v, %v", first, err)
			}
			second, err := crate.Pack(t.Context(), to, parts) // the first run was cut off
			if err != nil || second != first {
				t.Fatalf("%+v, %v", second, err)
			}
			if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("it has its name already: %v", err)
			}
			if err := crate.Deliver(to, "another"); err == nil {
				t.Fatal("another crate was delivered")
			}
			for range 2 {
				if err := crate.Deliver(to, first.Sum); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := crate.Pack(t.Context(), to, parts); !errors.Is(err, fs.ErrExist) {
				t.Fatalf("packed over it: %v", err)
			}
			if name != "purser" {
				if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
					t.Fatalf("%v, %v", info, err)
				}
				if err := os.Mkdir(filepath.Join(dir, "there"), 0o755); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command("tar", "xpf", to, "-C", filepath.Join(dir, "there")).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				to = filepath.Join(dir, "there", "purser")
			}
			for path, want := range map[string]fs.FileMode{".": 0o700, "purser-data/pki": 0o700, "purser-data/pki/root.key": 0o600, "purser.env": 0o600} {
				if info, err := os.Stat(filepath.Join(to, path)); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s: %v, %v", path, info, err)
				}
			}
			rest, err := filepath.Glob(filepath.Join(dir, ".*"))
			if err != nil || len(rest) > 0 {
				t.Errorf("left over: %v, %v", rest, err)
			}
		})
	}
}

// A crate that was changed since is not delivered, and a part that cannot be read leaves nothing behind.
func TestCrateThatIsNotWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	to, from := filepath.Join(dir, "purser"), write(t, filepath.Join(dir, "env"), "A=b")
	p, err := crate.Pack(t.Context(), to, []crate.Part{crate.File("purser.env", from)})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, ".purser.moving", "purser.env"), "A=c")
	if err := crate.Deliver(to, p.Sum); err == nil {
		t.Fatal("delivered")
	}
	for _, name := range []string{"../outside", "/x", "purser.env"} {
		if _, err := crate.Pack(t.Context(), to, []crate.Part{crate.File("purser.env", from), crate.File(name, from)}); err == nil {
			t.Errorf("packed %q", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, ".purser.moving")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
