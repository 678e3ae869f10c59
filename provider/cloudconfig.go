package provider

import (
	"context"
	"fmt"
	"io"
)

// ConfigObject is what a provider's factory is given as its io.Reader when the cloud config is a ConfigMap or a Secret that the manager
// reads from the API server, by --cloud-config-object. Reading it returns what the object held when the process began, so a factory
// needs to know nothing of this; one that follows changes of its config asserts the type.
type ConfigObject interface {
	io.Reader
	// String names the object and the key in it, for messages.
	fmt.Stringer
	// Watch calls changed with each other content, one call after the other, until ctx ends; it begins with what was read. An error in
	// the place of a content says that there is none, because the object or the key is gone: what was in force stays so. Watch
	// is called once at most, and its error is nil when ctx has ended.
	Watch(ctx context.Context, changed func(content []byte, gone error)) error
}
