package election

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

const theirPod = `{"holder":"them","namespace":"kube-system","name":"ccm-0","uid":"0a1b"}`

// standby is a tenure of a replica in a Pod of its own, which waits for the lease of another one.
func standby(t *testing.T) *tenure {
	t.Helper()
	tenure := newTenure(t)
	tenure.pods = tenure.client
	tenure.watcher = endingWatches{tenure.watcher}
	tenure.options.Pod = &Pod{Namespace: "kube-system", Name: "ccm-1", UID: "2c3d", TerminationLog: filepath.Join(t.TempDir(), "log")}
	if err := os.WriteFile(tenure.options.Pod.TerminationLog, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return tenure
}

// endingWatches end with their context, as a connection does, and unlike those of a fake client.
type endingWatches struct {
	coordinationv1client.LeaseInterface
}

func (e endingWatches) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	watcher, err := e.LeaseInterface.Watch(ctx, options)
	if err == nil {
		context.AfterFunc(ctx, watcher.Stop)
	}
	return watcher, err
}

// holdBy has a holder take the lease, with an annotation, renewed at some time.
func (t *tenure) holdBy(holder, annotation string, renewed time.Time) {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "lease", Annotations: map[string]string{HolderPodAnnotation: annotation}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
		},
	}
	resource := coordinationv1.SchemeGroupVersion.WithResource("leases")
	if t.client.Tracker().Update(resource, lease, "kube-system") != nil {
		_ = t.client.Tracker().Create(resource, lease, "kube-system")
	}
}

// report has a kubelet report the state of the holder's Pod.
func (t *tenure) report(pod *corev1.Pod) {
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	if t.client.Tracker().Update(resource, pod, "kube-system") != nil {
		_ = t.client.Tracker().Create(resource, pod, "kube-system")
	}
}

// running is the Pod of a holder that runs.
func running() *corev1.Pod {
	pod := crashed()
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}
	return pod
}

// freeAfter returns how long it takes until the lease is handed out as free.
func (t *tenure) freeAfter(test *testing.T) time.Duration {
	test.Helper()
	began := time.Now()
	record, _, err := t.Get(test.Context())
	if err != nil || record.HolderIdentity != "" {
		test.Fatalf("the lease is %+v, error %v", record, err)
	}
	return time.Since(began)
}

// TestLeaseIsFreeWhenItsHolderHasTerminated: within seconds if the Pod shows it, when it has expired otherwise.
func TestLeaseIsFreeWhenItsHolderHasTerminated(t *testing.T) {
	const reported = 3 * time.Second // when the kubelet reports what there is
	longAgo := ended.Add(-2 * time.Second)
	for name, test := range map[string]struct {
		holder, annotation string
		renewed            time.Time
		then               *corev1.Pod
		prepare            func(*tenure)
		want               time.Duration
	}{
		"terminated":                       {"them", theirPod, longAgo, crashed(), nil, reported},
		"running":                          {"them", theirPod, longAgo, running(), nil, expiredAfter},
		"renewed after its end":            {"them", theirPod, ended.Add(5 * time.Second), crashed(), nil, expiredAfter},
		"the annotation is of another":     {"another", theirPod, longAgo, crashed(), nil, expiredAfter},
		"no annotation":                    {"them", "", longAgo, crashed(), nil, expiredAfter},
		"Pods are not looked at":           {"them", theirPod, longAgo, crashed(), func(t *tenure) { t.pods = nil }, expiredAfter},
		"the Pod may not be watched":       {"them", theirPod, longAgo, crashed(), func(t *tenure) { t.refuse("pods") }, expiredAfter},
		"the lease may not be watched":     {"them", theirPod, longAgo, crashed(), func(t *tenure) { t.refuse("leases") }, reported},
		"the Pod is gone":                  {"them", theirPod, longAgo, nil, nil, expiredAfter},
		"the Pod is gone when it is asked": {"them", theirPod, longAgo, nil, func(t *tenure) { t.remove() }, expiredAfter},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tenure := standby(t)
				tenure.holdBy(test.holder, test.annotation, test.renewed)
				tenure.report(running())
				if test.prepare != nil {
					test.prepare(tenure)
				}
				time.AfterFunc(reported, func() {
					if test.then == nil {
						tenure.remove()
					} else {
						tenure.report(test.then)
					}
				})
				if after := tenure.freeAfter(t); after < test.want || after > test.want+timeOfAPoll {
					t.Errorf("the lease is free after %s, want %s", after, test.want)
				}
				if tenure.following != nil {
					t.Error("the Pod is watched on")
				}
				if rest, early := time.Until(tenure.Inherited()), test.want != expiredAfter; early != (rest > 0) || rest > expiredAfter-test.want {
					t.Errorf("the lease would have lasted for %s, and was taken early: %t", rest, early)
				}
			})
		})
	}
}

// timeOfAPoll is how much later a standby may read a lease that it cannot watch.
const timeOfAPoll = 2400 * time.Millisecond

func (t *tenure) refuse(resource string) {
	t.client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("forbidden")
	})
}

func (t *tenure) remove() {
	_ = t.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "kube-system", them.Name)
}

// TestTheLastStateOfAPodThatIsDeletedCounts, where it is deleted before the standby acts.
func TestTheLastStateOfAPodThatIsDeletedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := standby(t)
		tenure.holdBy("them", theirPod, ended.Add(-time.Second))
		tenure.report(running())
		time.AfterFunc(time.Second, func() {
			tenure.report(crashed())
			tenure.remove()
		})
		if after := tenure.freeAfter(t); after != time.Second {
			t.Errorf("the lease is free after %s", after)
		}
	})
}

// TestTheNextHoldersPodIsFollowed when another standby was faster.
func TestTheNextHoldersPodIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := standby(t)
		tenure.holdBy("the first", strings.Replace(strings.Replace(theirPod, "them", "the first", 1), "ccm-0", "ccm-9", 1), ended.Add(-time.Second))
		tenure.report(running())
		time.AfterFunc(time.Second, func() { tenure.holdBy("them", theirPod, ended.Add(-time.Second)) })
		time.AfterFunc(2*time.Second, func() { tenure.report(crashed()) })
		if after := tenure.freeAfter(t); after != 2*time.Second {
			t.Errorf("the lease is free after %s", after)
		}
	})
}

// TestTheAnnotationGoesWithTheHolder from when it takes the lease until it gives it back.
func TestTheAnnotationGoesWithTheHolder(t *testing.T) {
	const ourPod = `{"holder":"us","namespace":"kube-system","name":"ccm-1","uid":"2c3d"}`
	for name, test := range map[string]struct {
		prepare func(*tenure)
		want    string
	}{
		"in a Pod":                         {func(*tenure) {}, ourPod},
		"in no Pod":                        {func(t *tenure) { t.options.Pod, t.pods = nil, nil }, ""},
		"in a container without a kubelet": {func(t *tenure) { _ = os.Remove(t.options.Pod.TerminationLog) }, ""},
		"where no message can be written":  {func(t *tenure) { t.options.Pod.TerminationLog = filepath.Dir(t.options.Pod.TerminationLog) }, ""},
		"where the disk is full":           {func(t *tenure) { t.options.Pod.TerminationLog = "/dev/full" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tenure := standby(t)
				log := tenure.options.Pod.TerminationLog
				test.prepare(tenure)
				tenure.holdBy("", theirPod, ended.Time)
				ctx := context.WithoutCancel(t.Context())
				if _, _, err := tenure.Get(ctx); err != nil {
					t.Fatal(err)
				}
				for range 3 { // it takes the lease and renews it
					if err := tenure.Update(ctx, ours()); err != nil {
						t.Fatal(err)
					}
					tenure.requireAnnotation(t, test.want)
				}
				message, err := os.ReadFile(log)
				if want := "lease holder us\n"; test.want != "" && string(message) != want {
					t.Errorf("the termination message is %q, error %v, want %q", message, err, want)
				}
				if err := tenure.Update(ctx, resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}); err != nil {
					t.Fatal(err)
				}
				tenure.requireAnnotation(t, "")
			})
		})
	}
}

// TestTheAnnotationFollowsTheServingKey, whose certificate may be replaced while this replica leads.
func TestTheAnnotationFollowsTheServingKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenure := standby(t)
		key := ""
		tenure.options.ServingKey = func() string { return key }
		tenure.holdBy("", theirPod, ended.Time)
		ctx := context.WithoutCancel(t.Context())
		if _, _, err := tenure.Get(ctx); err != nil {
			t.Fatal(err)
		}
		for _, key = range []string{"sha256:1", "sha256:2", ""} {
			if err := tenure.Update(ctx, ours()); err != nil {
				t.Fatal(err)
			}
			lease, err := tenure.client.CoordinationV1().Leases("kube-system").Get(ctx, "lease", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			annotation := lease.Annotations[HolderPodAnnotation]
			if name, uid, said := HolderPod(annotation, "us", "kube-system"); name != "ccm-1" || uid != "2c3d" || said != key {
				t.Errorf("the lease says %s, want the key %q", annotation, key)
			}
			for _, other := range [][2]string{{"them", "kube-system"}, {"us", "default"}} {
				if name, uid, said := HolderPod(annotation, other[0], other[1]); name+string(uid)+said != "" {
					t.Errorf("of the holder %s in %s it says %s, %s, %s", other[0], other[1], name, uid, said)
				}
			}
		}
	})
}

func (t *tenure) requireAnnotation(test *testing.T, want string) {
	test.Helper()
	lease, err := t.client.CoordinationV1().Leases("kube-system").Get(context.Background(), "lease", metav1.GetOptions{})
	if err != nil {
		test.Fatal(err)
	}
	if got, there := lease.Annotations[HolderPodAnnotation]; got != want || there != (want != "") {
		test.Errorf("held by %q, the annotation is %q, want %q", ptr.Deref(lease.Spec.HolderIdentity, ""), got, want)
	}
}
