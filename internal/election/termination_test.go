package election

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// began is when the container of the holder started, and ended when it terminated.
var (
	began = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ended = metav1.NewTime(began.Add(time.Hour))
)

// them is where the holder of the lease runs.
var them = holderPod{Holder: "them", Namespace: "kube-system", Name: "ccm-0", UID: "0a1b"}

// crashed is the Pod of a holder that was killed, as the kubelet reports it when it has not started another container yet.
func crashed() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: them.Namespace, Name: them.Name, UID: them.UID},
		Spec: corev1.PodSpec{NodeName: "node", HostNetwork: true, Containers: []corev1.Container{
			{Name: "ccm", TerminationMessagePolicy: corev1.TerminationMessageReadFile},
			{Name: "sidecar", TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "ccm", ContainerID: "containerd://1", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "Error", StartedAt: began, FinishedAt: ended, ContainerID: "containerd://1", Message: "lease holder them\n",
			}}},
			{Name: "sidecar", ContainerID: "containerd://2", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}},
		}},
	}
}

func TestTermination(t *testing.T) {
	// change is what the Pod of the holder has, and why it does not show that the holder is gone, empty if it does.
	type change struct {
		to  func(pod *corev1.Pod, status *corev1.ContainerStatus, terminated *corev1.ContainerStateTerminated)
		why string
	}
	type (
		status     = *corev1.ContainerStatus
		terminated = *corev1.ContainerStateTerminated
	)
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ended}}
	for name, test := range map[string]change{
		"killed": {to: func(*corev1.Pod, status, terminated) {}},
		"killed, and started again": {to: func(_ *corev1.Pod, s status, was terminated) {
			s.ContainerID, s.State, s.LastTerminationState.Terminated = "containerd://3", runs, was
		}},
		"killed, and not started again yet": {to: func(_ *corev1.Pod, s status, was terminated) {
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			s.LastTerminationState.Terminated = was
		}},
		"ended with an error":           {to: func(_ *corev1.Pod, _ status, was terminated) { was.ExitCode = 1 }},
		"something more in the message": {to: func(_ *corev1.Pod, _ status, was terminated) { was.Message = "panic\nlease holder them\ngoroutine 1" }},
		"ended, with the Pod": {to: func(pod *corev1.Pod, _ status, _ terminated) {
			pod.Status.Phase, pod.DeletionTimestamp = "Failed", &ended
		}},
		"running": {to: func(_ *corev1.Pod, s status, _ terminated) { s.State = runs }, why: "no terminated container"},
		"being deleted, not ready, failed by the collector of Pods": {to: func(pod *corev1.Pod, s status, _ terminated) {
			s.State, pod.Status.Phase, pod.DeletionTimestamp = runs, corev1.PodFailed, &ended
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "False"}, {Type: corev1.DisruptionTarget, Status: "True"}}
		}, why: "no terminated container"},
		"lost by a kubelet": {to: func(_ *corev1.Pod, s status, _ terminated) {
			s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}
		}, why: "no terminated container"},
		"lost by a kubelet that repeats the message": {
			to: func(_ *corev1.Pod, _ status, was terminated) {
				was.Reason, was.ContainerID = "ContainerStatusUnknown", ""
			}, why: "did not find container",
		},
		"lost by containerd": {to: func(_ *corev1.Pod, _ status, was terminated) { was.ExitCode, was.Reason = 255, "Unknown" }, why: "not known"},
		"lost by CRI-O":      {to: func(_ *corev1.Pod, _ status, was terminated) { was.ExitCode = 255 }, why: "not known"},
		"removed to be restarted": {
			to: func(_ *corev1.Pod, _ status, was terminated) { was.Reason = "RestartingAllContainers" }, why: "not known",
		},
		"another container of it": {to: func(_ *corev1.Pod, _ status, was terminated) { was.Message = "lease holder us\n" }, why: "no terminated container"},
		"a holder whose name begins alike": {
			to: func(_ *corev1.Pod, _ status, was terminated) { was.Message = "lease holder them2\n" }, why: "no terminated container",
		},
		"no message": {to: func(_ *corev1.Pod, _ status, was terminated) { was.Message = "" }, why: "no terminated container"},
		"a sidecar whose log repeats the message": {to: func(pod *corev1.Pod, s status, was terminated) {
			s.State, pod.Status.ContainerStatuses[1].State = runs, corev1.ContainerState{Terminated: was}
		}, why: "from its log"},
		"a container that the Pod does not have": {to: func(_ *corev1.Pod, s status, _ terminated) { s.Name = "other" }, why: "from its log"},
		"another UID":                            {to: func(pod *corev1.Pod, _ status, _ terminated) { pod.UID = "2c3d" }, why: "another Pod"},
		"another Pod":                            {to: func(pod *corev1.Pod, _ status, _ terminated) { pod.Name = "ccm-1" }, why: "another Pod"},
		"another namespace":                      {to: func(pod *corev1.Pod, _ status, _ terminated) { pod.Namespace = "default" }, why: "another Pod"},
		"the mirror of a static Pod": {to: func(pod *corev1.Pod, _ status, _ terminated) {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "ab"}
		}, why: "mirror"},
		"the host's processes":   {to: func(pod *corev1.Pod, _ status, _ terminated) { pod.Spec.HostPID = true }, why: "share a PID namespace"},
		"processes of all of it": {to: func(pod *corev1.Pod, _ status, _ terminated) { pod.Spec.ShareProcessNamespace = ptr.To(true) }, why: "share a PID namespace"},
		"no end":                 {to: func(_ *corev1.Pod, _ status, was terminated) { was.FinishedAt = metav1.Time{} }, why: "no time"},
		"an end in 1970":         {to: func(_ *corev1.Pod, _ status, was terminated) { was.FinishedAt = metav1.Unix(0, 0) }, why: "no time"},
		"an end before the start": {to: func(_ *corev1.Pod, _ status, was terminated) {
			was.FinishedAt = metav1.NewTime(began.Add(-time.Second))
		}, why: "no time"},
		"terminated, and running": {to: func(_ *corev1.Pod, s status, was terminated) {
			s.State, s.LastTerminationState.Terminated = runs, was
		}, why: "runs"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := crashed()
			status := &pod.Status.ContainerStatuses[0]
			test.to(pod, status, status.State.Terminated)
			finished, err := termination(pod, them)
			if test.why != "" {
				if !errors.Is(err, errNotTerminated) || !strings.Contains(err.Error(), test.why) {
					t.Errorf("it terminated at %s, error %v, want one that says %q", finished, err, test.why)
				}
				return
			}
			if err != nil || !finished.Equal(ended.Time) {
				t.Errorf("it terminated at %s, error %v, want %s", finished, err, ended)
			}
		})
	}
}

func TestRenewalContradictsTheEndOfTheHolder(t *testing.T) {
	for name, test := range map[string]struct {
		renewed time.Duration // after the second in which the container ended
		want    bool
	}{
		"before":                                 {-2 * time.Second, false},
		"at the second that the API has left":    {0, false},
		"within that second, before or after it": {999 * time.Millisecond, false},
		"after it":                               {time.Second, true},
		"long after it":                          {time.Hour, true},
	} {
		if got := contradicted(ended.Time, metav1.NewTime(ended.Add(test.renewed))); got != test.want {
			t.Errorf("a renewal %s: contradicted is %t", name, got)
		}
	}
}

func TestWhoseTheAnnotationIs(t *testing.T) {
	const theirs = `{"holder":"them","namespace":"kube-system","name":"ccm-0","uid":"0a1b"}`
	for name, test := range map[string]struct {
		annotation, holder, namespace string
		want                          holderPod
	}{
		"the holder's":            {theirs, "them", "kube-system", them},
		"an earlier holder's":     {theirs, "another", "kube-system", holderPod{}},
		"without a holder":        {strings.Replace(theirs, "them", "", 1), "", "kube-system", holderPod{}},
		"in another namespace":    {theirs, "them", "default", holderPod{}},
		"without a UID":           {strings.Replace(theirs, "0a1b", "", 1), "them", "kube-system", holderPod{}},
		"without a name":          {strings.Replace(theirs, "ccm-0", "", 1), "them", "kube-system", holderPod{}},
		"none":                    {"", "them", "kube-system", holderPod{}},
		"something else":          {"them", "them", "kube-system", holderPod{}},
		"longer than it may be":   {theirs + strings.Repeat(" ", maxHolderPod), "them", "kube-system", holderPod{}},
		"of a type that is wrong": {`{"holder":["them"]}`, "them", "kube-system", holderPod{}},
	} {
		if got := podOf(test.annotation, test.holder, test.namespace); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
