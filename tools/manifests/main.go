// Command manifests checks Kubernetes manifests against the types of the API, strictly: manifests FILE…
//
// A field that the API does not know fails here, where a cluster would warn and ignore it. So does an object that breaks
// a promise of purser's manifests (rules.go). Other checks of a cluster are left to the cluster. The name - means standard
// input.
//
// kubeconform is not used: its schemas come from the network or from megabytes of copies, and the rules need the types
// anyway.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kinds makes an empty object of each kind in the manifests.
var kinds = map[metav1.TypeMeta]func() any{
	{APIVersion: "v1", Kind: "ConfigMap"}:                            func() any { return new(corev1.ConfigMap) },
	{APIVersion: "v1", Kind: "PersistentVolumeClaim"}:                func() any { return new(corev1.PersistentVolumeClaim) },
	{APIVersion: "v1", Kind: "Service"}:                              func() any { return new(corev1.Service) },
	{APIVersion: "apps/v1", Kind: "Deployment"}:                      func() any { return new(appsv1.Deployment) },
	{APIVersion: "apps/v1", Kind: "StatefulSet"}:                     func() any { return new(appsv1.StatefulSet) },
	{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}:  func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
	{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:           func() any { return new(policyv1.PodDisruptionBudget) },
	{APIVersion: "monitoring.coreos.com/v1", Kind: "PrometheusRule"}: func() any { return new(monitoringv1.PrometheusRule) },
	{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}: func() any { return new(monitoringv1.ServiceMonitor) },
	{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}:      func() any { return new(networkingv1.NetworkPolicy) },
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: manifests FILE…")
		os.Exit(2)
	}
	failed := false
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(path string) error {
	text, err := read(path)
	if err != nil {
		return err
	}
	n := 0
	for r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; n++ {
		object, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(object, &kind); err != nil {
			return err
		}
		empty, known := kinds[kind]
		if !known {
			return fmt.Errorf("object %d: %s %s is not known", n+1, kind.APIVersion, kind.Kind)
		}
		into := empty()
		if err := strictly(object, into); err != nil {
			return fmt.Errorf("object %d, %s: %w", n+1, kind.Kind, err)
		}
		if err := rules(into); err != nil {
			return fmt.Errorf("object %d, %s: %w", n+1, kind.Kind, err)
		}
		fmt.Printf("%s: %s %s\n", path, kind.APIVersion, kind.Kind)
	}
	if n == 0 {
		return errors.New("there is no object in it")
	}
	return nil
}

func read(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(path) //nolint:gosec // the caller names it
}

// strictly reads YAML as a cluster does: names of fields must match in case.
func strictly(object []byte, into any) error {
	text, err := yaml.YAMLToJSONStrict(object)
	if err != nil {
		return err
	}
	unknown, err := json.UnmarshalStrict(text, into)
	return errors.Join(append(unknown, err)...)
}
