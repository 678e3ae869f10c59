package writes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// clients are those of one API server.
type clients struct {
	// json and protobuf differ in how they encode objects; patches are JSON always.
	json, protobuf kubernetes.Interface
}

// kind is a way to write.
type kind struct {
	name  string
	write func(context.Context, clients, *corev1.Node) error
}

// part is one of the two writes of an initialization.
type part struct {
	name  string
	kinds []kind
}

// parts are the two writes: the addresses, and everything else.
func parts() []part {
	return []part{
		{"addresses", []kind{
			{"JSON patch with tests", patch(types.JSONPatchType, addressTests, "", "status")},
			{"the same, fields not validated", patch(types.JSONPatchType, addressTests, metav1.FieldValidationIgnore, "status")},
			{"strategic merge patch with resource version", patch(types.StrategicMergePatchType, mergedAddresses, "", "status")},
			{"the same, fields not validated", patch(types.StrategicMergePatchType, mergedAddresses, metav1.FieldValidationIgnore, "status")},
			{"merge patch with resource version, fields not validated", patch(types.MergePatchType, mergedAddresses, metav1.FieldValidationIgnore, "status")},
			{"update, JSON", update(overJSON, corev1client.NodeInterface.UpdateStatus, withAddresses)},
			{"update, protobuf", update(overProtobuf, corev1client.NodeInterface.UpdateStatus, withAddresses)},
		}},
		{"labels and taints", []kind{
			{"JSON patch with tests", patch(types.JSONPatchType, labelTests, "")},
			{"the same, fields not validated", patch(types.JSONPatchType, labelTests, metav1.FieldValidationIgnore)},
			{"strategic merge patch with resource version", patch(types.StrategicMergePatchType, mergedLabels, "")},
			{"the same, fields not validated", patch(types.StrategicMergePatchType, mergedLabels, metav1.FieldValidationIgnore)},
			{"merge patch with resource version, fields not validated", patch(types.MergePatchType, mergedLabels, metav1.FieldValidationIgnore)},
			{"update, JSON", update(overJSON, corev1client.NodeInterface.Update, withLabels)},
			{"update, protobuf", update(overProtobuf, corev1client.NodeInterface.Update, withLabels)},
			{"update without status, protobuf", update(overProtobuf, corev1client.NodeInterface.Update, withLabelsOnly)},
		}},
	}
}

func overJSON(c clients) kubernetes.Interface     { return c.json }
func overProtobuf(c clients) kubernetes.Interface { return c.protobuf }

func patch(how types.PatchType, body func(*corev1.Node) any, validation string, subresources ...string) func(context.Context, clients, *corev1.Node) error {
	return func(ctx context.Context, c clients, node *corev1.Node) error {
		encoded, err := json.Marshal(body(node))
		if err != nil {
			return fmt.Errorf("encode the patch: %w", err)
		}
		_, err = c.protobuf.CoreV1().Nodes().Patch(ctx, node.Name, how, encoded, metav1.PatchOptions{FieldValidation: validation}, subresources...)
		return err
	}
}

func update(
	client func(clients) kubernetes.Interface,
	write func(corev1client.NodeInterface, context.Context, *corev1.Node, metav1.UpdateOptions) (*corev1.Node, error),
	change func(*corev1.Node) *corev1.Node,
) func(context.Context, clients, *corev1.Node) error {
	return func(ctx context.Context, c clients, node *corev1.Node) error {
		_, err := write(client(c).CoreV1().Nodes(), ctx, change(node), metav1.UpdateOptions{})
		return err
	}
}

// addedLabels are what the cloud adds to the labels of a new node.
var addedLabels = map[string]string{
	corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelInstanceType: "m5.large", corev1.LabelTopologyZone: "zone-a",
	corev1.LabelFailureDomainBetaZone: "zone-a", corev1.LabelTopologyRegion: "region", corev1.LabelFailureDomainBetaRegion: "region",
}

// proof is the annotation that Mooring writes beside the labels.
const proof = "mooring.dev/proven"

func providerID(node *corev1.Node) string { return "sim:///" + node.Name }

func addresses(node *corev1.Node) []corev1.NodeAddress {
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, {Type: corev1.NodeExternalIP, Address: "192.0.2.1"},
		{Type: corev1.NodeHostName, Address: node.Name},
	}
}

// operation is one of a JSON patch (RFC 6902). A test for nil is one for absence.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func addressTests(node *corev1.Node) any {
	const path = "/status/addresses"
	return []operation{{"test", "/metadata/uid", node.UID}, {"test", path, node.Status.Addresses}, {"add", path, addresses(node)}}
}

func labelTests(node *corev1.Node) any {
	operations := []operation{
		{"test", "/metadata/uid", node.UID},
		{"test", "/spec/providerID", nil}, {"add", "/spec/providerID", providerID(node)},
		{"test", "/metadata/annotations/mooring.dev~1proven", nil}, {"add", "/metadata/annotations/mooring.dev~1proven", "by ID"},
	}
	for key, value := range addedLabels {
		path := "/metadata/labels/" + strings.ReplaceAll(key, "/", "~1")
		operations = append(operations, operation{"test", path, nil}, operation{"add", path, value})
	}
	return append(operations, operation{"test", "/spec/taints/0", node.Spec.Taints[0]}, operation{"remove", "/spec/taints/0", nil})
}

func mergedAddresses(node *corev1.Node) any {
	return map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"status":   map[string]any{"addresses": addresses(node)},
	}
}

func mergedLabels(node *corev1.Node) any {
	return map[string]any{
		"metadata": map[string]any{
			"uid": node.UID, "resourceVersion": node.ResourceVersion, "labels": addedLabels, "annotations": map[string]string{proof: "by ID"},
		},
		"spec": map[string]any{"providerID": providerID(node), "taints": nil},
	}
}

func withAddresses(node *corev1.Node) *corev1.Node {
	changed := node.DeepCopy()
	changed.Status.Addresses = addresses(node)
	return changed
}

func withLabels(node *corev1.Node) *corev1.Node {
	changed := node.DeepCopy()
	maps.Copy(changed.Labels, addedLabels)
	changed.Annotations[proof] = "by ID"
	changed.Spec.ProviderID, changed.Spec.Taints = providerID(node), nil
	return changed
}

// withLabelsOnly leaves out what the API server takes from the node that it has, whatever an update says.
func withLabelsOnly(node *corev1.Node) *corev1.Node {
	changed := withLabels(node)
	changed.Status, changed.ManagedFields = corev1.NodeStatus{}, nil
	return changed
}
