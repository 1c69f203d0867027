package ship

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/vault"
)

// insideVariable holds the unpacked image, for the test that runs in namespaces of its own.
const insideVariable = "PURSER_SHIP_INSIDE"

// runs runs the image as a container runtime would, but without one and without privileges: the test starts itself
// again in a network, a user and a mount namespace of its own, and purser within, in the image's folder.
func (i image) runs(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInsideImage$", "-test.v", "-test.count=1", "-test.timeout=5m")
	cmd.Env = append(process.Environment(), insideVariable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	var said process.Log
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		for _, refusal := range []error{syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSPC, syscall.ENOSYS} {
			if errors.Is(err, refusal) {
				t.Skipf("the system allows no user namespaces, so the image cannot be run: %v", err)
			}
		}
		t.Fatal(err)
	}
	err = cmd.Wait()
	if err != nil || !strings.Contains(said.String(), "--- PASS: TestInsideImage") {
		t.Fatalf("in the image: %v\n%s", err, said.String())
	}
	t.Logf("in the image:\n%s", said.String())
}

// container is a root file system in which the image runs.
type container struct {
	image
	settings []string
}

// TestInsideImage is run by TestImage and TestImageFromSource. purser may write to its volume and /tmp only.
func TestInsideImage(t *testing.T) {
	text := os.Getenv(insideVariable)
	if text == "" {
		t.Skip("it is run by TestImage and TestImageFromSource, in namespaces of its own")
	}
	c := container{}
	if err := json.Unmarshal([]byte(text), &c.image); err != nil {
		t.Fatal(err)
	}
	loopback(t)
	w := world(t)
	c.furnish(t, w.CA())
	c.settings = []string{
		"PURSER_KEY=" + deployment, "PURSER_UPSTREAM=" + w.SellerDirectURL(), "PURSER_ALLOW_ADDRESSES=127.0.0.0/8",
		"PURSER_FACILITATOR_URL=" + w.FacilitatorURL(), "PURSER_RPC_URL=" + w.RPCURL(),
	}
	c.refusesSandbox(t)

	p := start(t, c.command(append(c.Config.Entrypoint, c.Config.Cmd...)...), "http://127.0.0.1:8402")
	c.requireNobody(t, p)
	s := fund(t, w, p.url, "http://127.0.0.1:8406")
	if !strings.Contains(strings.ToLower(p.Log.String()), strings.ToLower(s.wallet.String())) {
		t.Errorf("the address to fund, %s, is not in the log", s.wallet)
	}
	s.everywhere(t)
	status := c.output(t, "/usr/bin/purser", "status")
	health, _ := get(t, http.DefaultClient, p.url+"/health")
	metrics, _ := get(t, http.DefaultClient, "http://127.0.0.1:8407/metrics")
	if c.Named {
		requireVersion(t, status, health, metrics)
	}
	if said := c.output(t, c.Config.Healthcheck.Test[1:]...); said != "" {
		t.Errorf("the health check says %q", said)
	}
	if said := c.output(t, "/usr/bin/purser", "status", "--alive", "-q"); said != "" {
		t.Errorf("purser status --alive -q says %q", said)
	}
	p.stop(t)
	if out, err := c.command(c.Config.Healthcheck.Test[1:]...).CombinedOutput(); err == nil {
		t.Errorf("the health check is content without a purser: %s", out)
	}

	// Another container with the same volume has the same wallet.
	p = start(t, c.command(append(c.Config.Entrypoint, c.Config.Cmd...)...), "http://127.0.0.1:8402")
	s.everywhere(t)
	p.stop(t)
}

// loopback turns on the only network there is.
func loopback(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Fatalf("turn on the loopback interface: %v", err)
	}
}

// furnish makes the image's files read-only, but for a volume and /tmp, after adding what a container runtime or an
// operator adds: names of hosts, and an authority to trust.
func (c container) furnish(t *testing.T, authority string) {
	t.Helper()
	hosts := "127.0.0.1 localhost api.purser.test tls.purser.test\n"
	if err := os.WriteFile(filepath.Join(c.Root, "etc/hosts"), []byte(hosts), 0o644); err != nil {
		t.Fatal(err)
	}
	added, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := os.OpenFile(filepath.Join(c.Root, "etc/ssl/certs/ca-certificates.crt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = bundle.Write(added)
	if err := errors.Join(err, bundle.Close()); err != nil {
		t.Fatal(err)
	}

	mount := func(source, target string, flags uintptr) {
		if err := unix.Mount(source, target, "", flags, ""); err != nil {
			t.Fatalf("mount %s: %v", target, err)
		}
	}
	mount("", "/", unix.MS_REC|unix.MS_PRIVATE)
	mount(c.Root, c.Root, unix.MS_BIND)
	for _, name := range []string{"data", "tmp"} {
		mount(t.TempDir(), filepath.Join(c.Root, name), unix.MS_BIND)
	}
	var is unix.Statfs_t
	if err := unix.Statfs(c.Root, &is); err != nil {
		t.Fatal(err)
	}
	// A remount cannot allow what the folder's file system forbids.
	kept := uintptr(is.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
	mount("", c.Root, unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|kept)
	if err := os.WriteFile(filepath.Join(c.Root, "etc/hosts"), nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Fatalf("the image's files are not read-only: %v", err)
	}
}

// command is a program in the image, run by its user and with its variables.
func (c container) command(arguments ...string) *exec.Cmd {
	cmd := exec.Command(arguments[0], arguments[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(append([]string{}, c.Config.Env...), c.settings...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:      c.Root,
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: 0, Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	return cmd
}

// output returns the output of a program in the image, which must succeed.
func (c container) output(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := c.command(arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", arguments, err, out)
	}
	return string(out)
}

// requireNobody fails unless purser runs as the image's user, without any privilege.
func (c container) requireNobody(t *testing.T, p *purser) {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", p.Cmd.Process.Pid)
	ids, err := os.ReadFile(proc + "uid_map")
	if err != nil {
		t.Fatal(err)
	}
	if f := strings.Fields(string(ids)); len(f) != 3 || f[0] != fmt.Sprint(user) {
		t.Errorf("purser is not user %d: %q", user, ids)
	}
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "CapEff:\t0000000000000000\n") {
		t.Errorf("purser has capabilities:\n%s", status)
	}
}

// refusesSandbox fails if purser takes over the database of a sandbox, whose signatures would be valid on Base.
func (c container) refusesSandbox(t *testing.T) {
	t.Helper()
	const name = "sandbox"
	dir := filepath.Join(c.Root, "data", name)
	db, err := boltstore.Open(t.Context(), boltstore.Options{
		Path: filepath.Join(dir, "purser.db"), MasterKey: vault.From("", "", filepath.Join(dir, "master.key")), World: boltstore.Sandbox,
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := c.command(append(c.Config.Entrypoint, c.Config.Cmd...)...)
	cmd.Env = append(cmd.Env, "PURSER_DATA_DIR=/data/"+name)
	p := process.Start(t, cmd, nil)
	if !p.EndsWithin(time.Minute) {
		t.Fatal("purser runs on the database of a sandbox")
	}
	if p.Err == nil || !strings.Contains(p.Log.String(), "sandbox") {
		t.Errorf("%v\n%s", p.Err, p.Log)
	}
}
