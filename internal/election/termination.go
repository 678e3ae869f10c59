package election

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errNotTerminated is why a Pod does not show that the container has terminated in which the holder of a lease ran.
var errNotTerminated = errors.New("its Pod does not show that its container has terminated")

// unknownExitCode is what containerd and CRI-O report for a container that they have lost sight of, whose processes may run. Mooring does
// not exit with it.
const unknownExitCode = 255

// guesses are the reasons of terminations that were not seen: the first two are the kubelet's, for containers that the runtime does not
// know, the third is containerd's.
var guesses = []string{"ContainerStatusUnknown", "RestartingAllContainers", "Unknown"}

// termination returns when the container terminated in which the holder of a lease ran, by what the kubelet of its node has reported, or
// an errNotTerminated that says why the Pod does not show it. It is a pure function of the Pod: of nothing that is absent, and of nothing
// that others than the kubelet write, such as phase, conditions and the deletion of the Pod.
//
// See ADR 89.
func termination(pod *corev1.Pod, of holderPod) (time.Time, error) {
	switch {
	case pod.Namespace != of.Namespace || pod.Name != of.Name || pod.UID != of.UID:
		return time.Time{}, notTerminated("another Pod has its name")
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return time.Time{}, notTerminated("it is the mirror of a static Pod")
	case pod.Spec.HostPID || pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace:
		return time.Time{}, notTerminated("its containers share a PID namespace, so processes may outlive one")
	}
	var finished time.Time
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		for _, terminated := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
			if terminated == nil || !says(terminated.Message, terminationMessage(of.Holder)) {
				continue
			}
			if err := seenByKubelet(pod, status, terminated); err != nil {
				return time.Time{}, err
			}
			finished = terminated.FinishedAt.Time
		}
	}
	if finished.IsZero() {
		return time.Time{}, notTerminated("no terminated container has its termination message")
	}
	return finished, nil
}

// says reports whether a line is one of those of a termination message. Others may have written there, too.
func says(message, line string) bool { return slices.Contains(strings.Split(message, "\n"), line) }

// seenByKubelet returns nil if a termination that has the holder's message was seen by the container runtime, and is not a guess.
func seenByKubelet(pod *corev1.Pod, status *corev1.ContainerStatus, terminated *corev1.ContainerStateTerminated) error {
	started, finished := terminated.StartedAt, terminated.FinishedAt
	switch {
	case !messageIsFile(pod, status.Name):
		return notTerminated("the termination message of container %s may be from its log", status.Name)
	case terminated.ContainerID == "":
		return notTerminated("the kubelet did not find container %s", status.Name)
	case terminated.ExitCode == unknownExitCode || slices.Contains(guesses, terminated.Reason):
		return notTerminated("how container %s has terminated is not known: exit code %d, reason %q", status.Name, terminated.ExitCode, terminated.Reason)
	case finished.Unix() <= 0 || finished.Before(&started):
		return notTerminated("the termination of container %s has no time", status.Name)
	case status.State.Running != nil && status.ContainerID == terminated.ContainerID:
		return notTerminated("container %s runs", status.Name)
	}
	return nil
}

// messageIsFile reports whether the termination messages of a container are what was written to its file, and nothing else.
func messageIsFile(pod *corev1.Pod, container string) bool {
	for i := range pod.Spec.Containers {
		if spec := &pod.Spec.Containers[i]; spec.Name == container {
			return spec.TerminationMessagePolicy == corev1.TerminationMessageReadFile
		}
	}
	return false
}

// contradicted reports whether a lease was renewed after its holder is said to have ended. Both times are of one machine, and the latter is
// cut to the second by the API.
func contradicted(finished time.Time, renewed metav1.Time) bool {
	return !finished.Add(time.Second).After(renewed.Time)
}

func notTerminated(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNotTerminated, fmt.Sprintf(format, args...))
}
