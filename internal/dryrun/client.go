package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/go-openapi/jsonpointer"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/mooring-ccm/mooring/ccm/plan"
	"github.com/mooring-ccm/mooring/internal/controller/kit"
)

// ErrUnsupported says that the dry run does not support a kind of write. Nothing was written.
var ErrUnsupported = errors.New("--dry-run writes nothing, and does not support this kind of write")

// Client returns a client that reads as the given one does and writes nothing. It records what the controller of that name would patch or delete.
//
// A patch succeeds, and returns the object as it would be, in the version that it has. A deletion fails with a conflict, which shows the controller that the object
// is still there.
func Client(of client.WithWatch, name string, recorder *Recorder) client.Client {
	r := &recordingClient{reader: of, controller: name, recorder: recorder, series: map[key]*series{}}
	return &comparable{interceptor.NewClient(of, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return ErrUnsupported
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			return ErrUnsupported
		},
		DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
			return ErrUnsupported
		},
		Patch: func(ctx context.Context, _ client.WithWatch, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
			return r.patch(ctx, "patch", object, patch)
		},
		Delete: func(ctx context.Context, _ client.WithWatch, object client.Object, _ ...client.DeleteOption) error {
			return r.delete(ctx, object)
		},
		SubResourcePatch: func(ctx context.Context, _ client.Client, name string, object client.Object, patch client.Patch,
			_ ...client.SubResourcePatchOption,
		) error {
			return r.patch(ctx, "patch "+name, object, patch)
		},
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return ErrUnsupported
		},
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return ErrUnsupported
		},
	})}
}

// comparable is a client that may be compared with another, which an interceptor may not.
type comparable struct{ client.Client }

// recordingClient records what one controller would write.
type recordingClient struct {
	reader     client.Client
	controller string
	recorder   *Recorder

	mu sync.Mutex
	// series are the patches of each object that is not as it should be.
	series map[key]*series
}

// patch records a patch, and fills the object in as it would be.
func (r *recordingClient) patch(ctx context.Context, verb string, object client.Object, patch client.Patch) error {
	intent, err := r.intent(ctx, verb, plan.Alters, object)
	if err != nil {
		return err
	}
	content, err := patch.Data(object)
	if err != nil {
		return fmt.Errorf("encoding the patch: %w", err)
	}
	of := &series{reader: r.reader, object: object.DeepCopyObject().(client.Object), pass: string(controller.ReconcileIDFromContext(ctx))}
	of.patches = append(r.before(keyOf(intent), of.pass), one{patch.Type(), content})
	var after []byte
	if intent.Changes, after, err = of.changes(ctx); err != nil {
		return apierrors.NewConflict(schema.GroupResource{Resource: intent.Kind}, intent.Name, err)
	}
	r.mu.Lock()
	r.series[keyOf(intent)] = of
	r.mu.Unlock()
	r.recorder.record(intent, func(ctx context.Context) ([]plan.Change, bool) {
		left, _, err := of.changes(ctx)
		return left, err == nil && len(left) > 0
	})
	return json.Unmarshal(after, object)
}

// before returns the patches of the same pass that came before: a pass that writes an object in steps sees its own.
func (r *recordingClient) before(of key, pass string) []one {
	r.mu.Lock()
	defer r.mu.Unlock()
	if earlier := r.series[of]; earlier != nil && pass != "" && earlier.pass == pass {
		return slices.Clone(earlier.patches)
	}
	return nil
}

// series are the patches of one object that one pass would have written.
type series struct {
	reader client.Client
	object client.Object
	// pass is the controller's; empty if it has no name.
	pass    string
	patches []one
}

// one is a patch.
type one struct {
	kind    types.PatchType
	content []byte
}

// changes applies the patches to the object as it is now.
func (s *series) changes(ctx context.Context) (changes []plan.Change, after []byte, err error) {
	current := s.object.DeepCopyObject().(client.Object)
	if err := s.reader.Get(ctx, client.ObjectKeyFromObject(s.object), current); err != nil {
		return nil, nil, err
	}
	before, err := json.Marshal(current)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the object: %w", err)
	}
	after = before
	for _, patch := range s.patches {
		if after, err = patched(after, current, patch.kind, patch.content); err != nil {
			return nil, nil, err
		}
	}
	changes, err = changesBetween(before, after)
	return changes, after, err
}

// delete records a deletion. It ends when the object is gone, or is another one of its name.
func (r *recordingClient) delete(ctx context.Context, object client.Object) error {
	intent, err := r.intent(ctx, "delete", plan.Deletes, object)
	if err != nil {
		return err
	}
	key, uid, now := client.ObjectKeyFromObject(object), object.GetUID(), r.recorder.now
	until := now().Add(kit.EventInterval)
	r.recorder.record(intent, func(ctx context.Context) ([]plan.Change, bool) {
		current, isObject := object.DeepCopyObject().(client.Object)
		if !isObject || r.reader.Get(ctx, key, current) != nil {
			return nil, false
		}
		return nil, (uid == "" || current.GetUID() == uid) && now().Before(until)
	})
	return apierrors.NewConflict(schema.GroupResource{Resource: intent.Kind}, key.Name, errors.New("nothing is deleted under --dry-run"))
}

// intent returns what is known of a write before its effect.
func (r *recordingClient) intent(ctx context.Context, verb string, effect plan.Effect, object client.Object) (plan.Intent, error) {
	kind, err := r.reader.GroupVersionKindFor(object)
	if err != nil {
		return plan.Intent{}, fmt.Errorf("kind of what is written: %w", err)
	}
	return plan.Intent{
		Controller: r.controller, Where: plan.Kubernetes, Verb: verb, Effect: effect, Kind: kind.Kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), Why: reason(ctx),
	}, nil
}

// patched returns what an object would be after a patch, both as JSON.
func patched(before []byte, typed runtime.Object, kind types.PatchType, patch []byte) ([]byte, error) {
	switch kind {
	case types.JSONPatchType:
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, fmt.Errorf("reading the JSON patch: %w", err)
		}
		return operations.Apply(before)
	case types.StrategicMergePatchType:
		return strategicpatch.StrategicMergePatch(before, patch, typed)
	case types.MergePatchType:
		return jsonpatch.MergePatch(before, patch)
	default:
		return nil, fmt.Errorf("patches of type %q are not supported under --dry-run", kind)
	}
}

// changesBetween compares two JSON documents field by field, in the order of their paths. Lists of objects are compared element
// by element, by their place.
func changesBetween(before, after []byte) ([]plan.Change, error) {
	var from, to any
	if err := json.Unmarshal(before, &from); err != nil {
		return nil, fmt.Errorf("reading the object: %w", err)
	}
	if err := json.Unmarshal(after, &to); err != nil {
		return nil, fmt.Errorf("reading the changed object: %w", err)
	}
	return compare("", from, to), nil
}

func compare(path string, from, to any) []plan.Change {
	if reflect.DeepEqual(from, to) {
		return nil
	}
	if a, b, both := asMaps(from, to); both {
		var changes []plan.Change
		for _, name := range slices.Sorted(maps.Keys(union(a, b))) {
			changes = append(changes, compare(path+"/"+jsonpointer.Escape(name), a[name], b[name])...)
		}
		return changes
	}
	a, isList := from.([]any)
	b, both := to.([]any)
	if !isList || !both {
		return []plan.Change{{Path: path, From: from, To: to}}
	}
	var changes []plan.Change
	for i := range max(len(a), len(b)) {
		changes = append(changes, compare(fmt.Sprintf("%s/%d", path, i), element(a, i), element(b, i))...)
	}
	return changes
}

// asMaps returns both as maps if there is one among them and the other is one or nothing.
func asMaps(from, to any) (a, b map[string]any, ok bool) {
	a, isMap := from.(map[string]any)
	b, both := to.(map[string]any)
	return a, b, isMap && both || isMap && to == nil || both && from == nil
}

func union(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return all
}

func element(list []any, at int) any {
	if at < len(list) {
		return list[at]
	}
	return nil
}
