package ship

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/testing/needed"
)

// builder builds images with buildah, without a registry and without root's rights over the system. All that it keeps
// is the test's own.
type builder struct {
	dir, buildah, policy string
	storage              []string // options that come before each command
}

// newBuilder skips the test where buildah cannot work.
func newBuilder(t *testing.T) builder {
	t.Helper()
	buildah := needed.Program(t, "Debian: package buildah", "buildah")
	dir := t.TempDir()
	b := builder{dir: dir, buildah: buildah, policy: filepath.Join(dir, "policy.json")}
	b.storage = []string{"--storage-driver", "vfs", "--root", filepath.Join(dir, "storage"), "--runroot", filepath.Join(dir, "run")}
	if err := os.WriteFile(b.policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := try(t, runTime, nil, buildah, append(b.storage, "images")...); err != nil {
		t.Skipf("buildah cannot work here, it may lack user namespaces: %v\n%s", err, out)
	}
	return b
}

// run runs one of buildah's commands.
func (b builder) run(t *testing.T, arguments ...string) string {
	t.Helper()
	return strings.TrimSpace(run(t, runTime, nil, b.buildah, append(b.storage, arguments...)...))
}

// unpacked is an image that was built, as files.
func (b builder) unpacked(t *testing.T, tag string) image {
	t.Helper()
	layers := filepath.Join(b.dir, "layers")
	b.run(t, "push", "--signature-policy", b.policy, "--format", "v2s2", tag, "dir:"+layers)
	return unpack(t, layers, filepath.Join(b.dir, "root"))
}

// fromBinary builds the image of a binary as deploy/image.sh does.
func (b builder) fromBinary(t *testing.T, binary string) image {
	t.Helper()
	notices := filepath.Join(b.dir, "NOTICES")
	run(t, buildTime, nil, "deploy/licences.sh", notices, binary)
	run(t, runTime, []string{
		"ENGINE=" + b.buildah, "ENGINE_FLAGS=" + strings.Join(b.storage, " "),
		"BUILD_FLAGS=--isolation chroot --signature-policy " + b.policy, "NOTICES=" + notices,
	}, "deploy/image.sh", binary, "purser-ship")
	return b.unpacked(t, "purser-ship")
}

// goPlace is the path of Go in the image that replaces Go's official one.
const goPlace = "/golang"

// fromSource builds the image that the Containerfile makes when it is asked for nothing else. It does not build in Go's
// image, which only a registry has. It mounts the programs and the Go of this system into an empty one, with Go's
// caches.
func (b builder) fromSource(t *testing.T) image {
	t.Helper()
	const base, tag = "localhost/purser-ship-go", "purser-ship-source"
	mounted := []string{
		"--isolation", "chroot", "--volume", goEnv(t, "GOROOT") + ":" + goPlace + ":ro",
		"--volume", goEnv(t, "GOMODCACHE") + ":/go/pkg/mod", "--volume", goEnv(t, "GOCACHE") + ":/root/.cache/go-build",
	}
	root := filepath.Join(b.dir, "base")
	for _, name := range []string{"tmp", "root/.cache/go-build", "go/pkg/mod", "usr", "etc/ssl", goPlace} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"usr", "etc/ssl", "bin", "sbin", "lib", "lib32", "lib64"} {
		info, err := os.Lstat("/" + name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && info.Mode().Type() == fs.ModeSymlink: // into usr
			var target string
			if target, err = os.Readlink("/" + name); err == nil {
				err = os.Symlink(target, filepath.Join(root, name))
			}
		case err == nil:
			mounted = append(mounted, "--volume", "/"+name+":/"+name+":ro")
			err = os.MkdirAll(filepath.Join(root, name), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	container := b.run(t, "from", "scratch")
	b.run(t, "copy", container, root, "/")
	b.run(t, "config", "--env", "PATH="+goPlace+"/bin:/usr/bin:/bin", "--env", "GOPATH=/go", "--env", "GOTOOLCHAIN=local", container)
	b.run(t, "commit", "--signature-policy", b.policy, container, base)
	probe := slices.Concat(b.storage, []string{"run"}, mounted, []string{container, "/bin/sh", "-c", "go version"})
	if out, err := try(t, runTime, nil, b.buildah, probe...); err != nil {
		if strings.Contains(out, "permitted") || strings.Contains(out, "ermission denied") {
			t.Skipf("the system does not allow buildah to run programs in an image: %v\n%s", err, out)
		}
		t.Fatalf("Go does not run in the image that stands in for its own: %v\n%s", err, out)
	}
	t.Log(run(t, buildTime, nil, b.buildah, slices.Concat(b.storage, []string{"build"}, mounted, []string{
		"--signature-policy", b.policy, "--format", "docker", "--pull=never", "--tag", tag,
		"--build-arg", "GO_IMAGE=" + base, "--build-arg", "VERSION=" + version, "--build-arg", "COMMIT=" + commit,
		"--build-arg", "GOPROXY=" + goEnv(t, "GOPROXY"), "--build-arg", "GOSUMDB=" + goEnv(t, "GOSUMDB"),
		"--file", "Containerfile", ".",
	})...))
	return b.unpacked(t, tag)
}
