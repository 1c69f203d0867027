package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// grace is the time of a pod to end, in seconds. purser takes 30 s for requests in flight, and ten more.
const grace = 45

// rules checks the promises of purser's manifests.
func rules(object any) error {
	switch o := object.(type) {
	case *appsv1.StatefulSet:
		err := errors.Join(alone(o.Spec.Replicas, &o.Spec.Template.Spec), pod(&o.Spec.Template.Spec))
		for _, c := range o.Spec.VolumeClaimTemplates {
			err = errors.Join(err, claim(&c.Spec))
		}
		return err
	case *appsv1.Deployment:
		err := errors.Join(alone(o.Spec.Replicas, &o.Spec.Template.Spec), pod(&o.Spec.Template.Spec))
		if o.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			err = errors.Join(err, errors.New("a new purser would start before the old one has ended"))
		}
		return err
	case *corev1.PersistentVolumeClaim:
		return claim(&o.Spec)
	case *networkingv1.NetworkPolicy:
		return policy(&o.Spec)
	}
	return nil
}

// alone fails for more than one pod on a file, because only one process may open the database.
func alone(replicas *int32, s *corev1.PodSpec) error {
	for i := range s.Containers {
		if slices.Contains(s.Containers[i].Env, corev1.EnvVar{Name: "PURSER_STORE", Value: "postgres"}) {
			return nil
		}
	}
	if replicas == nil || *replicas > 1 {
		return errors.New("there may be two pursers at once")
	}
	return nil
}

func claim(s *corev1.PersistentVolumeClaimSpec) error {
	for _, mode := range s.AccessModes {
		if mode != corev1.ReadWriteOncePod && mode != corev1.ReadWriteOnce {
			return fmt.Errorf("the volume can be written to by several: %s", mode)
		}
	}
	return nil
}

// pod fails if a container has more rights than it needs.
func pod(s *corev1.PodSpec) error {
	var problems []error
	require := func(kept bool, format string, args ...any) {
		if !kept {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	require(isFalse(s.AutomountServiceAccountToken), "automountServiceAccountToken is not false")
	require(isFalse(s.EnableServiceLinks), "enableServiceLinks is not false, and a service named purser sets purser's variables")
	require(s.TerminationGracePeriodSeconds != nil && *s.TerminationGracePeriodSeconds >= grace, "terminationGracePeriodSeconds is less than %d", grace)
	require(!s.HostNetwork && !s.HostPID && !s.HostIPC, "the pod shares namespaces with its node")
	c := s.SecurityContext
	require(c != nil && isTrue(c.RunAsNonRoot), "runAsNonRoot is not true")
	require(c != nil && c.SeccompProfile != nil && c.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "there is no seccompProfile")
	require(c != nil && c.FSGroup != nil, "there is no fsGroup, so the volume may belong to root")
	for _, v := range s.Volumes {
		require(v.HostPath == nil, "volume %s is the node's", v.Name)
		require(v.Secret == nil || v.Secret.DefaultMode != nil && *v.Secret.DefaultMode&0o007 == 0, "volume %s can be read by everybody", v.Name)
	}

	containers := slices.Concat(s.InitContainers, s.Containers)
	var owner *corev1.Container
	for i := range containers {
		k := &containers[i]
		problems = append(problems, container(k))
		if k.Name == "purser" {
			owner = k
		}
	}
	if owner == nil {
		return errors.Join(append(problems, errors.New("there is no container purser"))...)
	}
	require(owner.StartupProbe != nil && owner.ReadinessProbe != nil && owner.LivenessProbe != nil, "purser lacks probes")
	require(owner.Resources.Limits.Memory().Sign() > 0 && owner.Resources.Requests.Cpu().Sign() > 0, "purser lacks resources")
	for i := range containers {
		if containers[i].Name != owner.Name {
			problems = append(problems, apart(&containers[i], owner))
		}
	}
	return errors.Join(problems...)
}

// user returns the user that a container says it runs as, or -1.
func user(k *corev1.Container) int64 {
	if c := k.SecurityContext; c != nil && c.RunAsUser != nil {
		return *c.RunAsUser
	}
	return -1
}

func container(k *corev1.Container) error {
	c := k.SecurityContext
	switch {
	case c == nil:
		return fmt.Errorf("container %s has no securityContext", k.Name)
	case !isTrue(c.ReadOnlyRootFilesystem), !isFalse(c.AllowPrivilegeEscalation), isTrue(c.Privileged),
		c.Capabilities == nil || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0,
		c.RunAsNonRoot != nil && !*c.RunAsNonRoot, c.RunAsUser != nil && *c.RunAsUser == 0:
		return fmt.Errorf("container %s has more rights than it needs", k.Name)
	}
	for _, e := range k.Env {
		if e.Value != "" && (strings.HasSuffix(e.Name, "_KEY") || strings.HasSuffix(e.Name, "_SECRET") || e.Name == "DATABASE_URL") {
			return fmt.Errorf("container %s: %s stands in the manifest", k.Name, e.Name)
		}
	}
	return nil
}

// apart fails if a container beside purser shares its user, its volume or its secrets, because these own the wallets.
func apart(k, owner *corev1.Container) error {
	if user(k) < 0 || user(owner) < 0 || user(k) == user(owner) {
		return fmt.Errorf("container %s runs as purser's user", k.Name)
	}
	for _, m := range k.VolumeMounts {
		if slices.ContainsFunc(owner.VolumeMounts, func(o corev1.VolumeMount) bool { return o.Name == m.Name }) {
			return fmt.Errorf("container %s mounts purser's %s", k.Name, m.Name)
		}
	}
	return nil
}

// policy fails for a network policy that selects all pods, admits every peer, or lets out to every address.
func policy(s *networkingv1.NetworkPolicySpec) error {
	if all(&s.PodSelector) {
		return errors.New("it is about all pods")
	}
	for _, in := range s.Ingress {
		everybody := func(p networkingv1.NetworkPolicyPeer) bool {
			return all(p.PodSelector) && all(p.NamespaceSelector) && p.IPBlock == nil
		}
		if len(in.From) == 0 || len(in.Ports) == 0 || slices.ContainsFunc(in.From, everybody) {
			return errors.New("it lets everybody in, or to every port")
		}
	}
	for _, out := range s.Egress {
		if len(out.To) == 0 {
			return errors.New("it lets out to everywhere")
		}
		for _, to := range out.To {
			if to.IPBlock != nil && strings.HasSuffix(to.IPBlock.CIDR, "/0") && len(to.IPBlock.Except) < 4 {
				return errors.New("it lets out to private addresses")
			}
		}
	}
	return nil
}

// all reports whether a selector selects everything.
func all(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

func isTrue(b *bool) bool { return b != nil && *b }

func isFalse(b *bool) bool { return b != nil && !*b }
