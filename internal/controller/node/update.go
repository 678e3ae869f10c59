package node

import (
	"strconv"
	"strings"

	"github.com/go-openapi/jsonpointer"
	corev1 "k8s.io/api/core/v1"
)

// updated returns a node as a patch of planFor leaves it, nil if the patch has an operation that planFor does not make. The tests of the
// patch are not looked at: an update has the resource version of the node that the patch was planned for.
func updated(node *corev1.Node, patch []operation) *corev1.Node {
	after := node.DeepCopy()
	for _, operation := range patch {
		if operation.Op != "test" && !operation.changes(after) {
			return nil
		}
	}
	return after
}

// changes carries an operation out on a node, and reports whether it knows how.
func (o operation) changes(node *corev1.Node) bool {
	annotation, isAnnotation := strings.CutPrefix(o.Path, fieldAnnotations+"/")
	label, isLabel := labelOf(o.Path)
	taint, isTaint := strings.CutPrefix(o.Path, fieldTaints+"/")
	switch {
	case o.Path == fieldAddresses:
		addresses, are := o.Value.([]corev1.NodeAddress)
		node.Status.Addresses = addresses
		return o.Op == "add" && are
	case o.Path == fieldProviderID:
		providerID, is := o.Value.(string)
		node.Spec.ProviderID = providerID
		return o.Op == "add" && is
	case o.Path == fieldLabels:
		node.Labels = map[string]string{}
		return o.Op == "add"
	case o.Path == fieldAnnotations:
		node.Annotations = map[string]string{}
		return o.Op == "add"
	case isLabel:
		return o.changesValue(node.Labels, label)
	case isAnnotation:
		return o.changesValue(node.Annotations, jsonpointer.Unescape(annotation))
	case isTaint:
		return o.removesTaint(node, taint)
	default:
		return false
	}
}

func (o operation) changesValue(values map[string]string, key string) bool {
	switch value, is := o.Value.(string); {
	case o.Op == "remove":
		delete(values, key)
		return true
	case o.Op == "add" && is:
		values[key] = value
		return true
	default:
		return false
	}
}

func (o operation) removesTaint(node *corev1.Node, at string) bool {
	place, err := strconv.Atoi(at)
	if err != nil || o.Op != "remove" || place < 0 || place >= len(node.Spec.Taints) {
		return false
	}
	node.Spec.Taints = append(node.Spec.Taints[:place], node.Spec.Taints[place+1:]...)
	return true
}
