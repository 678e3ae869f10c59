package compare

import (
	"context"
	"fmt"
	"strings"
)

// Holds returns an error unless the cloud holds something whose key contains one text and whose value contains another.
func (e *Environment[C]) Holds(ctx context.Context, key, value string) error {
	seen, err := e.Cloud.Observe(ctx)
	if err != nil {
		return err
	}
	for at, is := range seen.State {
		if strings.Contains(at, key) && strings.Contains(is, value) {
			return nil
		}
	}
	return fmt.Errorf("nothing in the cloud at %q holds %q", key, value)
}
