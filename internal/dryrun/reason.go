package dryrun

import "context"

// reasonKey is the key of a reason in a context.
type reasonKey struct{}

// Because returns a context that says why what is done with it is done. It has no effect without --dry-run.
func Because(ctx context.Context, why string) context.Context {
	return context.WithValue(ctx, reasonKey{}, why)
}

// reason returns what Because was given, empty if nothing.
func reason(ctx context.Context) string {
	why, _ := ctx.Value(reasonKey{}).(string)
	return why
}
