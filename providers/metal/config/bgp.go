package config

// BGP is the speaker.
type BGP struct{}
