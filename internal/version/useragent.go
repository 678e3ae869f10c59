package version

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"k8s.io/client-go/rest"
)

// UserAgent is what this program calls itself in requests, in the form of client-go's, whose own names a version only if the linker
// was given one: "cloud-controller-manager/v0.1.0 (linux/amd64) mooring/0123456789ab".
func UserAgent() string {
	info := Get()
	program := Unknown
	if len(os.Args) > 0 && os.Args[0] != "" {
		program = filepath.Base(os.Args[0])
	}
	return fmt.Sprintf("%s/%s (%s/%s) mooring/%s", program, info.Version, runtime.GOOS, runtime.GOARCH, short(info.Commit))
}

// short is as much of a commit's ID as identifies the commit.
func short(commit string) string { return commit[:min(len(commit), 12)] }

// AddUserAgent sets the user agent of a client to this program's with a name for the client behind a slash, and returns config. It
// stands in for rest.AddUserAgent.
func AddUserAgent(config *rest.Config, name string) *rest.Config {
	config.UserAgent = UserAgent() + "/" + name
	return config
}
