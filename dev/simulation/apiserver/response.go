package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/client-go/kubernetes/scheme"
)

// answer is the result of a request before it is encoded.
type answer struct {
	err  error
	code int
	// entry is a stored object, object anything else.
	entry  *entry
	object runtime.Object
	// before and after are the object before and after a write.
	before, after runtime.Object
	changed       bool
}

func failed(err error) answer { return answer{err: err} }

func (a answer) name() string {
	for _, object := range []runtime.Object{a.after, a.before} {
		if object != nil {
			if about, err := meta.Accessor(object); err == nil {
				return about.GetName()
			}
		}
	}
	return ""
}

func (a answer) resourceVersion() string {
	switch {
	case a.entry != nil:
		return strconv.FormatInt(a.entry.version, 10)
	case a.object != nil:
		if list, err := meta.ListAccessor(a.object); err == nil {
			return list.GetResourceVersion()
		}
	}
	return ""
}

// response encodes an answer.
func (a answer) response(c *call) *http.Response {
	if a.err != nil {
		return errorResponse(c.request, a.err)
	}
	if c.mismatch != nil {
		return errorResponse(c.request, c.mismatch)
	}
	code := a.code
	if code == 0 {
		code = http.StatusOK
	}
	var encoded []byte
	var err error
	if a.entry != nil {
		encoded, err = a.entry.encode(c.resource, c.output, c.onlyMetadata())
	} else if about, ok := a.object.(metav1.Object); ok && c.onlyMetadata() {
		encoded, err = runtime.Encode(c.output.Serializer, partial(about))
	} else {
		encoded, err = runtime.Encode(c.output.Serializer, a.object)
	}
	if err != nil {
		return errorResponse(c.request, apierrors.NewInternalError(err))
	}
	return dataResponse(code, c.output.MediaType, encoded)
}

func dataResponse(code int, mediaType string, data []byte) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {mediaType}, "Cache-Control": {"no-cache, private"}},
		Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)),
	}
}

// partial is the metadata of an object, as an object.
func partial(about metav1.Object) *metav1.PartialObjectMetadata {
	metadata := meta.AsPartialObjectMetadata(about)
	metadata.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
	return metadata
}

// partialList is the metadata of objects.
func partialList(entries []*entry, about metav1.ListMeta) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{ListMeta: about}
	list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
	for _, entry := range entries {
		list.Items = append(list.Items, *partial(entry.meta))
	}
	return list
}

// statusOf makes the Status of an error.
func statusOf(err error) *metav1.Status {
	known, ok := err.(apierrors.APIStatus)
	for wrapped := err; !ok && wrapped != nil; {
		unwrapper, more := wrapped.(interface{ Unwrap() error })
		if !more {
			break
		}
		wrapped = unwrapper.Unwrap()
		known, ok = wrapped.(apierrors.APIStatus)
	}
	if !ok {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	return &status
}

// internal is an error of the API server's storage, which has no reason.
func internal(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message}}
}

// errorResponse encodes an error as a Status.
func errorResponse(request *http.Request, err error) *http.Response {
	status := statusOf(err)
	_, info, problem := negotiation.NegotiateOutputMediaType(request, scheme.Codecs, restrictions{})
	if problem != nil {
		info, _ = runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	}
	encoded, problem := runtime.Encode(info.Serializer, status)
	if problem != nil {
		return Text(http.StatusInternalServerError, "text/plain", fmt.Sprintf("encode the status %v: %v", status, problem))
	}
	response := dataResponse(int(status.Code), info.MediaType, encoded)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return response
}

func marshal(object any) ([]byte, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", object, err)
	}
	return encoded, nil
}
