// Package session authenticates at Keystone and hands out clients of the services. A session logs in when it is first used, renews its
// token when a service refuses it, and logs in anew when the config has other credentials. Every call has a deadline, and every error
// the type by which callers decide.
package session
