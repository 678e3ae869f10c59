package jsonpatch_test

import (
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ours "github.com/mooring-ccm/mooring/internal/controller/kit/jsonpatch"
)

// node returns a node as the API server has it.
func node(uid types.UID, taints ...corev1.Taint) []byte {
	encoded, _ := json.Marshal(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: uid}, Spec: corev1.NodeSpec{Taints: taints}})
	return encoded
}

// A list is replaced on the object that was planned for, while it is as it was. The library is the one by which the API server applies patches.
func TestAnUnchangedListIsReplaced(t *testing.T) {
	a, b := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}, corev1.Taint{Key: "b", Effect: corev1.TaintEffectNoSchedule}
	for name, test := range map[string]struct {
		before, after []corev1.Taint
		live          []byte
		fits          bool
	}{
		"as it was":            {[]corev1.Taint{a}, []corev1.Taint{a, b}, node("1", a), true},
		"none before":          {nil, []corev1.Taint{b}, node("1"), true},
		"another object":       {[]corev1.Taint{a}, []corev1.Taint{a, b}, node("2", a), false},
		"changed":              {[]corev1.Taint{a}, nil, node("1", a, b), false},
		"one that came":        {nil, []corev1.Taint{b}, node("1", a), false},
		"the last one is gone": {[]corev1.Taint{a}, []corev1.Taint{b}, node("1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := ours.Replace("1", "/spec/taints", test.before, test.after).Data(nil)
			if err != nil {
				t.Fatal(err)
			}
			patch, err := jsonpatch.DecodePatch(encoded)
			if err != nil {
				t.Fatal(err)
			}
			switch got, err := patch.Apply(test.live); {
			case (err == nil) != test.fits:
				t.Errorf("error %v, want one: %t", err, !test.fits)
			case err == nil && !jsonpatch.Equal(got, node("1", test.after...)):
				t.Errorf("the node is %s", got)
			}
		})
	}
}

func TestAMemberIsEscaped(t *testing.T) {
	if got := ours.Member("/metadata/labels", "a.b/c~d"); got != "/metadata/labels/a.b~1c~0d" {
		t.Error(got)
	}
}
