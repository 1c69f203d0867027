package ship

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
	"go.yaml.in/yaml/v3"
)

// kubernetes is the version that charts are rendered for.
const kubernetes = "1.33.0"

// chart is the folder of purser's chart.
func chart(t *testing.T) string {
	t.Helper()
	return filepath.Join(process.Root(), "deploy/helm/purser")
}

// helm is Helm, as `make helm` leaves it, else built now, which takes three minutes with nothing in Go's build cache. It
// is a module of its own, so that what else is in tools keeps its versions and is built as fast as before.
func helm(t *testing.T) string {
	t.Helper()
	return toolOf(t, "tools/helm", "helm.sh/helm/v3/cmd/helm")
}

// The chart is one that Helm and clusters understand, in all its ways, and keeps the promises of the plain manifests.
func TestChart(t *testing.T) {
	h, manifests := helm(t), tool(t, "github.com/purserpay/purser/tools/manifests")
	everything := filepath.Join(t.TempDir(), "everything.yaml")
	if err := os.WriteFile(everything, []byte(everyValue), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, variant := range map[string]struct {
		arguments []string
		kinds     string // what is rendered, in Helm's order
		has, not  []string
	}{
		"default": {
			kinds: "NetworkPolicy NetworkPolicy PersistentVolumeClaim Service Service Deployment",
			has: []string{
				"name: try-purser-proxy", "helm.sh/resource-policy: keep", "secretKeyRef: {name: purser, key: rpc-url}", "type: Recreate",
				`{name: PURSER_DAILY_BUDGET, value: "10"}`, `{name: PURSER_REGISTRATION, value: "off"}`, "image: purser:latest",
			},
			not: []string{"PURSER_UPSTREAM", "PURSER_STANDIN", "Caddyfile"},
		},
		"everything": {
			arguments: []string{"--values", everything},
			kinds:     "NetworkPolicy NetworkPolicy ConfigMap PersistentVolumeClaim Service Service Deployment PrometheusRule ServiceMonitor",
			has: []string{
				"image: registry.test/purser@sha256:" + strings.Repeat("0a", 32), "storageClassName: fast", "alert: PurserDown", "{{ $labels.instance }}",
				"{targetLabel: job, replacement: purser}", "PURSER_UPSTREAM_BIND, value: 0.0.0.0", "path: oidc-client-secret", "release: prometheus", `{name: PURSER_OIDC_ALLOW, value: "@example.com, group:payments"}`,
				"args: [run, --config, /etc/purser/chart/Caddyfile]", "10.1.2.3/32", "name: OTEL_SERVICE_NAME", "checksum/caddyfile: ",
			},
			not: []string{"PURSER_RPC_URL"},
		},
		"bare": {
			arguments: []string{
				"--set", "networkPolicy.enabled=false", "--set", "metrics.enabled=false", "--set", "persistence.existingClaim=mine", "--set", "replicas=0",
			},
			kinds: "Service Deployment",
			has:   []string{"claimName: mine", "replicas: 0"},
			not:   []string{"8407", "PURSER_METRICS_BIND"},
		},
		"postgres": {
			arguments: []string{
				"--set", "store.kind=postgres,store.databaseSecret.name=purser-db-app,replicas=3,store.databaseCA.name=purser-db-ca", "--set", `networkPolicy.databasePods.cnpg\.io/cluster=purser-db`,
			},
			kinds: "NetworkPolicy NetworkPolicy PodDisruptionBudget Service Service StatefulSet",
			has: []string{
				"replicas: 3", "secretKeyRef: {name: purser-db-app, key: uri}", "{name: PURSER_STORE, value: postgres}", "type: RollingUpdate", "cnpg.io/cluster: purser-db", "secretName: purser-db-ca", "{name: PGSSLROOTCERT, value: /run/secrets/database/ca.crt}",
				"topologyKey: kubernetes.io/hostname", "maxUnavailable: 1", "storage: 1Gi", "terminationGracePeriodSeconds: 45",
			},
			not: []string{"Recreate", "httpGet: {path: /health", "claimName"},
		},
		"scaling": {
			arguments: []string{"--set", "store.kind=postgres,store.databaseSecret.name=db,postgres.autoscaling.enabled=true,networkPolicy.databaseIsPublic=true"},
			kinds:     "NetworkPolicy NetworkPolicy PodDisruptionBudget Service Service HorizontalPodAutoscaler StatefulSet",
			has:       []string{"averageUtilization: 70"},
			not:       []string{"  replicas:"},
		},
		"sidecar": {arguments: []string{"--set", "mode=sidecar"}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, runTime, nil, h, append([]string{"lint", "--strict", "--kube-version", kubernetes, chart(t)}, variant.arguments...)...)
			text := render(t, h, chart(t), variant.arguments...)
			if got := kindsOf(t, text); got != variant.kinds {
				t.Errorf("there are %s, not %s", got, variant.kinds)
			}
			for _, part := range variant.has {
				if !strings.Contains(text, part) {
					t.Errorf("%q is missing", part)
				}
			}
			for _, part := range variant.not {
				if strings.Contains(text, part) {
					t.Errorf("%q is there", part)
				}
			}
			if variant.kinds != "" {
				known(t, manifests, text)
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// everyValue uses what the chart can do.
const everyValue = `
image: {repository: registry.test/purser, digest: "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"}
imagePullSecrets: [{name: registry}]
secretKeys: {rpcUrl: "", facilitatorKey: facilitator, internalSecret: internal, oidcClientSecret: oidc}
settings: {PURSER_PUBLIC_URL: "https://purser.example.com", PURSER_OIDC_ISSUER: "https://login.example.com", PURSER_OIDC_ALLOW: "@example.com, group:payments"}
extraEnv: [{name: OTEL_SERVICE_NAME, value: purser}]
caddyfile: |
  {
    purser
  }
service: {annotations: {a: b}}
upstream: {enabled: true, url: "https://api.example.com"}
persistence: {storageClass: fast, accessMode: ReadWriteOnce, size: 20Gi, annotations: {c: d}}
metrics:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
networkPolicy:
  extraEgress: [{to: [{ipBlock: {cidr: 10.1.2.3/32}}], ports: [{protocol: TCP, port: 8545}]}]
  extraIngress: [{from: [{podSelector: {matchLabels: {app: ingress}}}], ports: [{protocol: TCP, port: 8402}]}]
podLabels: {team: agents}
podAnnotations: {note: "1"}
nodeSelector: {disk: ssd}
tolerations: [{key: agents, operator: Exists}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
priorityClassName: high
`

// The chart refuses settings that would lose money or would not work, and says why.
func TestChartRefuses(t *testing.T) {
	h := helm(t)
	for setting, reason := range map[string]string{
		"replicas=2":          "only one process may have open",
		"replicaCount=3":      "only one process may have open",
		"store.kind=mysql":    "kind",
		"store.kind=postgres": "store.databaseSecret.name must name",
		"store.kind=postgres,store.databaseSecret.name=db": "would keep purser from its database",
		"postgres.autoscaling.enabled=true":                "needs store.kind postgres",
		"settings.PURSER_STORE=postgres":                   "PURSER_STORE",
		"persistence.accessMode=ReadWriteMany":             "accessMode",
		"settings.PURSER_KEY=pk_x":                         "PURSER_KEY",
		"settings.PURSER_DATA_DIR=/tmp":                    "PURSER_DATA_DIR",
		"settings.purser_daily_budget=x":                   "purser_daily_budget",
		"setting.PURSER_DAILY_BUDGET=1":                    "setting",
		"upstream.enabled=true":                            "upstream.url must name",
		"existingSecret=":                                  "existingSecret",
		"secretKeys.masterKey=":                            "masterKey",
		"mode=both":                                        "mode",
		"image.digest=latest":                              "digest",
		"networkPolicy.agentLabels=null":                   "agentLabels",
		"networkPolicy.monitoringNamespace=null":           "monitoringNamespace",
		"networkPolicy.dnsPods=null":                       "dnsPods",
		"metrics.serviceMonitor.interval=always":           "interval",
	} {
		arguments := []string{"template", "try", chart(t), "--kube-version", kubernetes, "--set", setting}
		if out, err := try(t, runTime, nil, h, arguments...); err == nil || !strings.Contains(out, reason) {
			t.Errorf("%s: %v\n%.2000s", setting, err, out)
		}
	}
}

// The chart's templates put purser into the pods of another chart, with the promises of sidecar.yaml.
func TestChartSidecar(t *testing.T) {
	h, manifests := helm(t), tool(t, "github.com/purserpay/purser/tools/manifests")
	agent := filepath.Join(t.TempDir(), "agent")
	if err := os.CopyFS(agent, os.DirFS("testdata/agent")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(agent, "charts"), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, runTime, nil, "cp", "-RL", chart(t), filepath.Join(agent, "charts/purser")) // links are followed, as Helm does when it packs a chart
	run(t, runTime, nil, h, "lint", "--strict", "--kube-version", kubernetes, agent)
	text := render(t, h, agent, "--set", "purser.upstream.enabled=true,purser.upstream.url=https://api.example.com")
	if got := kindsOf(t, text); got != "StatefulSet" {
		t.Errorf("there are %s", got)
	}
	for _, part := range []string{"restartPolicy: Always", "PURSER_STANDIN, value: loopback", "PURSER_BIND, value: 127.0.0.1", `PURSER_UPSTREAM, value: "https://api`} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing:\n%s", part, text)
		}
	}
	known(t, manifests, text)
	// The rules see an agent that could take the wallets.
	spoilt := strings.Replace(text, "{name: work, mountPath: /work}", "{name: purser-data, mountPath: /work}", 1)
	if out, err := try(t, runTime, nil, manifests, written(t, spoilt)); err == nil || !strings.Contains(out, "mounts purser's purser-data") {
		t.Errorf("an agent may mount purser's volume: %v, %s", err, out)
	}
}

// render returns the manifests of a chart with these values.
func render(t *testing.T, h, dir string, arguments ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), h, append([]string{"template", "try", dir, "--kube-version", kubernetes}, arguments...)...)
	var said bytes.Buffer
	cmd.Stderr = &said // it tells of links there
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	return string(out)
}

// kindsOf are the kinds of objects, in their order.
func kindsOf(t *testing.T, text string) string {
	t.Helper()
	var kinds []string
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var object struct{ Kind string }
		err := d.Decode(&object)
		if errors.Is(err, io.EOF) {
			return strings.Join(kinds, " ")
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		kinds = append(kinds, object.Kind)
	}
}

// known fails unless a cluster knows all that is in the objects, and they keep the rules of tools/manifests.
func known(t *testing.T, manifests, text string) {
	t.Helper()
	run(t, runTime, nil, manifests, written(t, text))
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
