package dead

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-ccm/mooring/providers/metal/machines/nodestate"
)

func TestNodeFacts(t *testing.T) {
	deleted := metav1.Now()
	for name, test := range map[string]struct {
		status  v1.ConditionStatus
		deleted *metav1.Time
		want    facts
	}{
		"ready":         {status: v1.ConditionTrue, want: facts{ready: true}},
		"not ready":     {status: v1.ConditionFalse},
		"silent":        {status: v1.ConditionUnknown, want: facts{silent: true}},
		"no condition":  {},
		"being deleted": {status: v1.ConditionTrue, deleted: &deleted, want: facts{ready: true, deleting: true}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid", ResourceVersion: "7", DeletionTimestamp: test.deleted}}
			if test.status != "" {
				node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue}, {Type: v1.NodeReady, Status: test.status}}
			}
			want := test.want
			want.name, want.uid, want.resourceVersion = "n1", "uid", "7"
			if got := nodeFacts(node); !reflect.DeepEqual(got, want) || nodestate.Ready(node) != want.ready {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
