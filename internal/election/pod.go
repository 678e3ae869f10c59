package election

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// HolderPodAnnotation is the annotation of the Lease by which its holder says in which Pod it runs, as JSON. It names the holder, too:
// a process that takes the Lease without knowing of the annotation leaves it there, and it then says nothing.
const HolderPodAnnotation = "mooring.dev/lease-holder-pod"

// maxHolderPod bounds that annotation, in bytes. Names have at most 253 characters.
const maxHolderPod = 2048

// Pod is the Pod in which a replica runs, in a container of its own PID namespace.
type Pod struct {
	Namespace, Name string
	// UID is the object's in the API. A static Pod has another one than its mirror, and matches nothing.
	UID types.UID
	// TerminationLog is the file that the container's terminationMessagePath names. It is written when this replica first tries to take
	// the lease, and never created.
	TerminationLog string
}

// holderPod is the value of HolderPodAnnotation.
type holderPod struct {
	Holder    string    `json:"holder"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// ServingKey is what ServingKey says of the certificate of its secure port; empty if the holder does not serve, or does not say.
	ServingKey string `json:"servingKey,omitempty"`
}

// podOf returns the Pod of the holder by the annotation, if it is in the namespace of this replica's own Pod. No other Pod is looked
// at. The zero value is no Pod.
func podOf(annotation, holder, namespace string) holderPod {
	var pod holderPod
	if holder == "" || len(annotation) > maxHolderPod || json.Unmarshal([]byte(annotation), &pod) != nil {
		return holderPod{}
	}
	if pod.Holder != holder || pod.Namespace != namespace || pod.Name == "" || pod.UID == "" {
		return holderPod{}
	}
	return pod
}

// HolderPod returns the Pod that HolderPodAnnotation names for the holder of a lease in a namespace, and the key by which the holder serves;
// empty if it names none.
func HolderPod(annotation, holder, namespace string) (name string, uid types.UID, servingKey string) {
	pod := podOf(annotation, holder, namespace)
	return pod.Name, pod.UID, pod.ServingKey
}

// ServingKey identifies the public key of a certificate.
func ServingKey(certificate *x509.Certificate) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256(certificate.RawSubjectPublicKeyInfo))
}

// terminationMessage is the line by which a container says that the holder of a lease runs in it. The kubelet makes a new file for each
// container, and shows what is in it once that container has terminated: a container does not know its own ID for certain.
func terminationMessage(holder string) string { return "lease holder " + holder }

// errNoPod is why a replica outside of a Pod says nothing of one.
var errNoPod = errors.New("the Pod of this replica is not known")

// announcePod returns the annotation of a Lease that this replica holds, empty if it cannot say by what the end of its process would show.
// The termination message is written before the Lease, once. The serving key may change.
func (l *Lock) announcePod(ctx context.Context) string {
	l.introduced.Do(func() {
		err := l.introduce()
		if err != nil && !errors.Is(err, errNoPod) {
			klog.FromContext(ctx).Info("If this replica crashes while it leads, the next leader waits for the whole lease", "lease", l.Describe(),
				"reason", err.Error())
		}
		l.known = err == nil
	})
	if !l.known {
		return ""
	}
	pod := holderPod{Holder: l.Identity(), Namespace: l.options.Pod.Namespace, Name: l.options.Pod.Name, UID: l.options.Pod.UID}
	if l.options.ServingKey != nil {
		pod.ServingKey = l.options.ServingKey()
	}
	annotation, err := json.Marshal(pod)
	if err != nil {
		return "" // strings are always encoded
	}
	return string(annotation)
}

// introduce writes the termination message.
func (l *Lock) introduce() error {
	pod := l.options.Pod
	if pod == nil {
		return errNoPod
	}
	file, err := os.OpenFile(pod.TerminationLog, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("termination message of the container: %w", err)
	}
	_, err = file.WriteString(terminationMessage(l.Identity()) + "\n")
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("termination message of the container: %w", err)
	}
	return nil
}

// annotatedLeases is the client that client-go's lock reads and writes the Lease by: that lock knows its spec only. Each write of this
// replica as the holder carries the annotation that says where it runs, and every other write takes it away.
type annotatedLeases struct {
	coordinationv1client.LeasesGetter
	lock *Lock
}

func (a annotatedLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return annotatedLease{a.LeasesGetter.Leases(namespace), a.lock}
}

type annotatedLease struct {
	coordinationv1client.LeaseInterface
	lock *Lock
}

// Get notes what the annotation says.
func (a annotatedLease) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := a.LeaseInterface.Get(ctx, name, options)
	if err == nil {
		a.lock.read = lease.Annotations[HolderPodAnnotation]
	}
	return lease, err
}

func (a annotatedLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return a.LeaseInterface.Create(ctx, a.annotated(ctx, lease), options)
}

func (a annotatedLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return a.LeaseInterface.Update(ctx, a.annotated(ctx, lease), options)
}

// annotated returns the lease with the annotation that goes with its holder.
func (a annotatedLease) annotated(ctx context.Context, lease *coordinationv1.Lease) *coordinationv1.Lease {
	annotation := ""
	if ptr.Deref(lease.Spec.HolderIdentity, "") == a.lock.Identity() {
		annotation = a.lock.announcePod(ctx)
	}
	if lease.Annotations[HolderPodAnnotation] == annotation {
		return lease
	}
	written := *lease
	written.Annotations = maps.Clone(lease.Annotations)
	if written.Annotations == nil {
		written.Annotations = map[string]string{}
	}
	if written.Annotations[HolderPodAnnotation] = annotation; annotation == "" {
		delete(written.Annotations, HolderPodAnnotation)
	}
	return &written
}
