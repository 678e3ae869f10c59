package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
