package apiserver

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// maxJSONPatchOperations is the limit of k8s.io/apiserver.
const maxJSONPatchOperations = 10000

// patchTypes are what the server can carry out.
var patchTypes = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType)}

// patch changes an object. It cannot conflict unless the patch names a version, because the lock is held.
func (s *Server) patch(c *call) answer {
	mediaType, _, err := mime.ParseMediaType(c.request.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(patchTypes, mediaType) {
		return failed(unsupportedMediaType())
	}
	before, ok := s.table(c.resource).objects[objectKey{c.Namespace, c.Name}]
	if !ok {
		return failed(apierrors.NewNotFound(c.resource.groupResource(), c.Name))
	}
	patched, err := c.patched(types.PatchType(mediaType), served(c.resource, before.object))
	if err != nil {
		return failed(err)
	}
	patched.GetObjectKind().SetGroupVersionKind(c.resource.GroupVersionKind)
	object := stored(patched)
	c.defaults(object)
	if err := c.checkName(mustMeta(object)); err != nil {
		return failed(err)
	}
	if err := s.placeInNamespace(c, mustMeta(object)); err != nil {
		return failed(err)
	}
	return s.replace(c, before, object)
}

// patched applies the patch in the body.
func (c *call) patched(kind types.PatchType, current runtime.Object) (runtime.Object, error) {
	if kind == types.StrategicMergePatchType {
		return c.patchedStrategically(current)
	}
	encoded, err := runtime.Encode(jsonSerializer(), current)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if kind == types.JSONPatchType {
		encoded, err = applyOperations(encoded, c.body)
	} else {
		encoded, err = jsonpatch.MergePatch(encoded, c.body)
		if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
			err = apierrors.NewBadRequest(err.Error())
		}
	}
	if err != nil {
		return nil, err
	}
	kindOf := c.resource.GroupVersionKind
	decoder := jsonSerializer()
	if c.query.Get("fieldValidation") == metav1.FieldValidationStrict {
		decoder = strictSerializer()
	}
	object, _, err := decoder.Decode(encoded, &kindOf, c.resource.make())
	if err != nil {
		return nil, invalidPatch(string(encoded), err)
	}
	return object, nil
}

func applyOperations(document, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(operations) > maxJSONPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxJSONPatchOperations, len(operations)))
	}
	patched, err := operations.Apply(document)
	if err != nil {
		return nil, unprocessable(err)
	}
	return patched, nil
}

func (c *call) patchedStrategically(current runtime.Object) (runtime.Object, error) {
	original, err := runtime.DefaultUnstructuredConverter.ToUnstructured(current)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	patch := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(c.body, &patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(original, patch, c.resource.make())
	switch {
	case err == nil:
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList), errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys),
		errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList), errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return nil, apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists), mergepatch.IsPreconditionFailed(err):
		return nil, unprocessable(err)
	default:
		return nil, err
	}
	object := c.resource.make()
	strict := c.query.Get("fieldValidation") == metav1.FieldValidationStrict
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, object, strict); err != nil {
		return nil, invalidPatch(fmt.Sprintf("%+v", patch), err)
	}
	return object, nil
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

func invalidPatch(value string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), value, err.Error())})
}

func jsonInfo() runtime.SerializerInfo {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return info
}

func jsonSerializer() runtime.Serializer   { return jsonInfo().Serializer }
func strictSerializer() runtime.Serializer { return jsonInfo().StrictSerializer }
