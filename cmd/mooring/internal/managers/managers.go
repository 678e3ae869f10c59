// Package managers finds cloud controller managers among the workloads and pods of a cluster, and reads what their command lines
// say. It is pure.
package managers

import (
	"cmp"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The defaults of the flags that programs of k8s.io/cloud-provider have, Mooring among them.
const (
	DefaultLease      = "cloud-controller-manager"
	DefaultNamespace  = metav1.NamespaceSystem
	DefaultSecurePort = "10258"
)

// ComponentLabel is the label by which charts and static pods say what part of a control plane a pod is.
const ComponentLabel = "app.kubernetes.io/component"

// Flags are the flags of a command line, by name without dashes. Of a flag that is repeated the last one counts, as for the program.
type Flags map[string]string

// FlagsOf reads the command line of a container. A flag without a value is "true".
func FlagsOf(container *corev1.Container) Flags {
	flags, words := Flags{}, commandLine(container)
	for i := 0; i < len(words); i++ {
		name, isFlag := strings.CutPrefix(words[i], "--")
		if !isFlag || name == "" {
			continue
		}
		name, value, hasValue := strings.Cut(name, "=")
		if !hasValue {
			value = "true"
			if i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
				i++
				value = words[i]
			}
		}
		flags[name] = value
	}
	return flags
}

// Is reports whether a flag is true.
func (f Flags) Is(name string) bool { return f[name] == "true" }

// Lease is the Lease by which the manager elects its leader; empty if it does not.
func (f Flags) Lease() (namespace, name string) {
	if f["leader-elect"] == "false" {
		return "", ""
	}
	return cmp.Or(f["leader-elect-resource-namespace"], DefaultNamespace), cmp.Or(f["leader-elect-resource-name"], DefaultLease)
}

// SecurePort is the port of health, metrics and plans.
func (f Flags) SecurePort() string { return cmp.Or(f["secure-port"], DefaultSecurePort) }

// Runs reports whether --controllers means a controller: by "*", which is the default, or by one of its names, of which - takes it out.
func (f Flags) Runs(names ...string) bool {
	listed, given := f["controllers"]
	if !given {
		return true
	}
	runs := false
	for one := range strings.SplitSeq(listed, ",") {
		one = strings.TrimSpace(one)
		for _, name := range names {
			switch one {
			case name:
				return true
			case "-" + name:
				return false
			}
		}
		runs = runs || one == "*"
	}
	return runs
}

// commandLine are the words of a container's command line. What a shell is given as a script is split at spaces: that finds flags.
func commandLine(container *corev1.Container) []string {
	var words []string
	for _, word := range append(append([]string{}, container.Command...), container.Args...) {
		words = append(words, strings.Fields(word)...)
	}
	return words
}

// Container returns the container that is a cloud controller manager, or nil if no container is. Vendors' programs and images are called
// NAME-cloud-controller-manager, cloud-controller-manager or ccm; all of them have the flag --cloud-provider.
func Container(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		container := &spec.Containers[i]
		names := []string{imageName(container.Image), container.Name}
		if len(container.Command) > 0 {
			names = append(names, path.Base(container.Command[0]))
		}
		for _, name := range names {
			if isManager(name) {
				return container
			}
		}
	}
	return nil
}

func isManager(name string) bool {
	return strings.Contains(name, "cloud-controller-manager") || name == "ccm" || strings.HasPrefix(name, "ccm-") || strings.HasSuffix(name, "-ccm")
}

// imageName is the last part of an image's name, without tag and digest.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name, _, _ := strings.Cut(path.Base(image), ":")
	return name
}

// OfKubelet reports whether a pod is the mirror of a static one: a kubelet may make such a pod with any name, labels and command line, and
// no other pod. It may take neither mark away again.
func OfKubelet(pod *corev1.Pod) bool {
	if _, mirrors := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirrors {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "Node"
}
