package nodestate

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOf(t *testing.T) {
	deleted := metav1.Now()
	for name, test := range map[string]struct {
		status  v1.ConditionStatus
		deleted *metav1.Time
		want    Node
	}{
		"ready":         {status: v1.ConditionTrue, want: Node{Ready: true}},
		"not ready":     {status: v1.ConditionFalse},
		"silent":        {status: v1.ConditionUnknown, want: Node{Silent: true}},
		"no condition":  {},
		"being deleted": {status: v1.ConditionTrue, deleted: &deleted, want: Node{Ready: true, Deleting: true}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid", ResourceVersion: "7", DeletionTimestamp: test.deleted}}
			if test.status != "" {
				node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue}, {Type: v1.NodeReady, Status: test.status}}
			}
			want := test.want
			want.Name, want.UID, want.ResourceVersion, want.Power = "n1", "uid", "7", On
			if got := Of(node, On); got != want || Ready(node) != want.Ready {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
