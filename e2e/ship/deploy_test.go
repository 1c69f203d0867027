package ship

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
	"go.yaml.in/yaml/v3"
)

// Scripts are read by whatever /bin/sh is.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join(process.Root(), "deploy", "*.sh"))
	if err == nil {
		var more []string
		more, err = filepath.Glob(filepath.Join(process.Root(), "deploy", "packages", "*.sh"))
		scripts = append(scripts, more...)
	}
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, path := range scripts {
		run(t, runTime, nil, "sh", "-n", path)
		if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s cannot be executed: %v", path, err)
		}
	}
}

// systemd understands the unit, and has little left to warn of.
func TestUnit(t *testing.T) {
	needed.Program(t, "Debian: package systemd", "systemd-analyze")
	text, err := os.ReadFile(filepath.Join(process.Root(), "deploy/systemd/purser.service"))
	if err != nil {
		t.Fatal(err)
	}
	// The program need not be installed here.
	present, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "purser.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "/usr/bin/purser ", present+" ")), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := run(t, runTime, nil, "systemd-analyze", "verify", "--man=no", path); strings.Contains(said, "purser.service") {
		t.Errorf("systemd says of the unit:\n%s", said)
	}
	if said, err := try(t, runTime, nil, "systemd-analyze", "security", "--offline=true", "--threshold=20", path); err != nil {
		t.Errorf("the unit leaves too much open: %v\n%s", err, said)
	}
	for _, setting := range []string{"TimeoutStopSec=45", "NoNewPrivileges=yes", "ProtectSystem=strict", "StateDirectory=purser", "User=purser"} {
		if !strings.Contains(string(text), "\n"+setting+"\n") {
			t.Errorf("the unit does not say %s", setting)
		}
	}
}

// The agent of the compose file has no way out but purser, and nothing of purser's but its network.
func TestCompose(t *testing.T) {
	type service struct {
		Networks    []string
		Volumes     []string
		Secrets     []string
		Environment map[string]string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		Grace       string   `yaml:"stop_grace_period"`
		Privileged  bool
		NetworkMode string         `yaml:"network_mode"`
		Rest        map[string]any `yaml:",inline"`
	}
	var file struct {
		Name     string
		Services map[string]service
		Networks map[string]struct{ Internal bool }
		Volumes  map[string]any
		Secrets  map[string]struct{ File string }
	}
	text, err := os.Open(filepath.Join(process.Root(), "deploy/compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	decoder := yaml.NewDecoder(text)
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	known := []string{"image", "restart", "security_opt", "tmpfs", "healthcheck", "command", "depends_on"}
	for name, s := range file.Services {
		for field := range s.Rest {
			if !slices.Contains(known, field) {
				t.Errorf("%s has a field %s", name, field)
			}
		}
		if s.Privileged || s.NetworkMode != "" {
			t.Errorf("%s has more than it needs", name)
		}
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if _, declared := file.Volumes[source]; !declared {
				t.Errorf("%s mounts %s, which is not declared", name, source)
			}
		}
		if name == "purser" {
			continue
		}
		for _, n := range s.Networks {
			if !file.Networks[n].Internal {
				t.Errorf("%s gets out through the network %s", name, n)
			}
		}
		if len(s.Networks) == 0 || len(s.Secrets) > 0 || slices.ContainsFunc(s.Volumes, func(v string) bool { return strings.HasPrefix(v, "purser-data") }) {
			t.Errorf("%s has networks %v, secrets %v and volumes %v", name, s.Networks, s.Secrets, s.Volumes)
		}
	}
	p := file.Services["purser"]
	if !p.ReadOnly || !slices.Equal(p.CapDrop, []string{"ALL"}) || p.Grace != "45s" || len(p.Networks) != 2 {
		t.Errorf("purser is %+v", p)
	}

	// The specification knows every field.
	compose := tool(t, "github.com/purserpay/purser/tools/compose")
	settings := []string{"PURSER_RPC_URL=https://rpc.example.com", "PURSER_AGENT_KEY=" + deployment}
	run(t, runTime, settings, compose, text.Name())
	if out, err := try(t, runTime, settings[:1], compose, text.Name()); err == nil || !strings.Contains(out, "an API key of purser") {
		t.Errorf("an agent without a key is taken: %v, %s", err, out)
	}
	whole, err := os.ReadFile(text.Name())
	if err != nil {
		t.Fatal(err)
	}
	for right, wrong := range map[string]string{"read_only: true": "readonly: true", "volumes: [\"purser-data:": "volumes: [\"nowhere:"} {
		if out, err := try(t, runTime, settings, compose, written(t, strings.Replace(string(whole), right, wrong, 1))); err == nil {
			t.Errorf("%s is taken: %s", wrong, out)
		}
	}
}

// The specification knows every field of the compose file with two pursers, and both are the same but for their volumes.
func TestComposeNodes(t *testing.T) {
	compose, path := tool(t, "github.com/purserpay/purser/tools/compose"), filepath.Join(process.Root(), "deploy/compose.nodes.yaml")
	run(t, runTime, []string{"PURSER_RPC_URL=https://rpc.example.com"}, compose, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]map[string]any }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	first, second := file.Services["purser-1"], file.Services["purser-2"]
	if first["volumes"] == nil || reflect.DeepEqual(first["volumes"], second["volumes"]) {
		t.Errorf("the pursers share the volumes %v", first["volumes"])
	}
	delete(first, "volumes")
	delete(second, "volumes")
	if !reflect.DeepEqual(first, second) || first["read_only"] != true || first["stop_grace_period"] != "45s" {
		t.Errorf("the pursers are %v and %v", first, second)
	}
	if strings.Contains(string(text), "ports:") {
		t.Error("something can be reached from outside")
	}
}

// The database of the nodes loses nothing at a failover: each commit waits for a second server, and never for none.
func TestDatabaseIsSynchronous(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(process.Root(), "deploy/kubernetes/cloudnativepg/cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Instances  int
			PostgreSQL struct {
				Synchronous struct {
					Method     string
					Number     int
					Durability string `yaml:"dataDurability"`
				}
				Parameters map[string]string
			} `yaml:"postgresql"`
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	db := file.Spec.PostgreSQL
	if file.Kind != "Cluster" || file.Metadata.Name != "purser-db" || db.Parameters["synchronous_commit"] != "on" ||
		db.Synchronous.Method != "any" || db.Synchronous.Number < 1 || db.Synchronous.Durability != "required" || file.Spec.Instances < db.Synchronous.Number+2 {
		t.Errorf("the cluster is %+v", file)
	}
}

// Kubernetes knows every field of the manifests, and they hold what they promise.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(process.Root(), "deploy/kubernetes/*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	manifests := tool(t, "github.com/purserpay/purser/tools/manifests")
	run(t, runTime, nil, manifests, files...)

	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "kind: NetworkPolicy") {
			t.Errorf("%s has no network policy", path)
		}
		// The check must notice a setting that is misspelt or missing.
		wrongs := map[string]string{
			"readOnlyRootFilesystem": "readonlyRootFileSystem", "readOnlyRootFilesystem: true": "readOnlyRootFilesystem: false",
			"terminationGracePeriodSeconds: 45": "terminationGracePeriodSeconds: 30", "runAsNonRoot: true": "runAsNonRoot: false",
			"allowPrivilegeEscalation: false": "allowPrivilegeEscalation: true", "enableServiceLinks: false": "enableServiceLinks: true",
			"automountServiceAccountToken: false": "automountServiceAccountToken: true",
			"drop: [ALL]":                         "drop: [NET_RAW]", "seccompProfile: {type: RuntimeDefault}": "seccompProfile: {type: Unconfined}",
			"ReadWriteOncePod": "ReadWriteMany", "defaultMode: 0440": "defaultMode: 0444", "readinessProbe": "lifecycle",
		}
		if strings.Contains(string(text), "PURSER_STORE") { // a database of a server has several nodes; a file has one
			wrongs["value: postgres"] = "value: bolt"
		} else {
			wrongs["replicas: 1"] = "replicas: 2"
		}
		for right, wrong := range wrongs {
			spoilt := strings.Replace(string(text), right, wrong, 1)
			if spoilt == string(text) {
				t.Errorf("%s does not say %s", path, right)
			}
			if out, err := try(t, runTime, nil, manifests, written(t, spoilt)); err == nil {
				t.Errorf("%s with %s is taken: %s", path, wrong, out)
			}
		}
	}
}
