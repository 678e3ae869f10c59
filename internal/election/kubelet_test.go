package election

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// instance is one container after the other of a Pod, as it really is.
type instance struct {
	message string
	// started and ended are seconds. An instance that the runtime has lost sight of has no end that anybody knows.
	started, ended int64
	running, lost  bool
	// survivor says that a process of it runs although it has ended, which needs a PID namespace of others.
	survivor bool
}

// history is what happened in a Pod of a replica: one instance after the other, of which the last may run.
type history struct {
	instances []instance
	holder    int // which of them the holder of the lease runs in
	shared    string
}

func drawHistory(t *rapid.T) history {
	h := history{shared: rapid.SampledFrom([]string{"", "", "", "host", "pod"}).Draw(t, "PID namespace")}
	at := int64(1000)
	for i := range rapid.IntRange(1, 4).Draw(t, "instances") {
		one := instance{started: at, ended: at + rapid.Int64Range(0, 3).Draw(t, "lasts"), message: fmt.Sprintf("lease holder replica-%d\n", i)}
		switch rapid.SampledFrom([]string{"ended", "ended", "lost", "running"}).Draw(t, "became") {
		case "lost":
			one.lost = true
		case "running":
			one.running = true
		default:
			one.survivor = h.shared != "" && rapid.Bool().Draw(t, "leaves a process")
		}
		h.instances = append(h.instances, one)
		if one.running {
			break
		}
		at = one.ended
	}
	h.holder = rapid.IntRange(0, len(h.instances)-1).Draw(t, "holder")
	return h
}

// gone reports whether the holder can no longer do anything.
func (h history) gone() bool {
	holder := h.instances[h.holder]
	return !holder.running && !holder.lost && !holder.survivor
}

// reported is the state of an instance as a kubelet reports it: what the runtime says, or a guess where that has lost it.
func (h history) reported(t *rapid.T, i int) corev1.ContainerState {
	one := h.instances[i]
	id := fmt.Sprintf("containerd://%d", i)
	seen := &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "Error", Message: one.message, ContainerID: id,
		StartedAt: metav1.Unix(one.started, 0), FinishedAt: metav1.Unix(one.ended, 0),
	}
	switch {
	case one.running:
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seen.StartedAt}}
	case !one.lost:
		return corev1.ContainerState{Terminated: seen}
	}
	switch rapid.SampledFrom([]string{"containerd", "CRI-O", "kubelet", "in place", "waiting"}).Draw(t, "lost by") {
	case "containerd":
		seen.ExitCode, seen.Reason = 255, "Unknown"
	case "CRI-O":
		seen.ExitCode = 255
	case "kubelet":
		seen = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}
	case "in place":
		seen = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "RestartingAllContainers"}
	case "waiting":
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	}
	return corev1.ContainerState{Terminated: seen}
}

// TestNoReportOfAKubeletEndsALivingHolder draws what happens in a Pod, and what is reported of it: late, by a kubelet that has lost a
// container, and with whatever controllers write into the status of a Pod. That the holder has ended may show only if it has.
func TestNoReportOfAKubeletEndsALivingHolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		late := rapid.IntRange(1, len(h.instances)).Draw(t, "instances that are reported")
		status := corev1.ContainerStatus{Name: "ccm", ContainerID: fmt.Sprintf("containerd://%d", late-1), State: h.reported(t, late-1)}
		if late < len(h.instances) && rapid.Bool().Draw(t, "before its end") {
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}
		if late > 1 {
			status.LastTerminationState = h.reported(t, late-2)
		}
		log := corev1.ContainerStatus{Name: "sidecar", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		if rapid.Bool().Draw(t, "a sidecar fails whose log repeats the message") {
			log.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Message: h.instances[h.holder].message, ContainerID: "containerd://9", FinishedAt: metav1.Unix(1000, 0),
			}}
		}
		pod := crashed()
		pod.Status = corev1.PodStatus{
			Phase:             rapid.SampledFrom([]corev1.PodPhase{"Running", "Pending", "Failed", "Succeeded", "Unknown"}).Draw(t, "phase"),
			ContainerStatuses: rapid.Permutation([]corev1.ContainerStatus{status, log}).Draw(t, "statuses"),
		}
		if rapid.Bool().Draw(t, "is deleted") {
			pod.DeletionTimestamp = &ended
		}
		if rapid.IntRange(0, 3).Draw(t, "is another") == 0 {
			pod.UID = "another"
		}
		pod.Spec.HostPID = h.shared == "host"
		shared := h.shared == "pod"
		pod.Spec.ShareProcessNamespace = &shared

		of := them
		of.Holder = fmt.Sprintf("replica-%d", h.holder)
		finished, err := termination(pod, of)
		holder := h.instances[h.holder]
		if err == nil && !h.gone() {
			t.Fatalf("the holder runs, and its Pod is said to show its end at %s", finished)
		}
		if err == nil && pod.UID != them.UID {
			t.Fatal("another Pod shows the end of the holder")
		}
		if err == nil && !finished.Equal(time.Unix(holder.ended, 0)) {
			t.Fatalf("it ended at %s, want %d", finished, holder.ended)
		}
		// Nothing is in doubt about it, and it is still reported: then it has to show.
		current := h.holder == late-1 && status.State.Running == nil || h.holder == late-2
		if err != nil && h.gone() && current && h.shared == "" && pod.UID == them.UID && log.State.Running != nil {
			t.Fatalf("the end of the holder does not show: %v", err)
		}
	})
}
