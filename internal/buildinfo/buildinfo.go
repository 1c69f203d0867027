// Package buildinfo finds the version of purser's Go module in what the Go toolchain records of a build. A linker's
// variables are its callers'.
package buildinfo

import (
	"runtime/debug"
	"strings"
)

// Module is the path of purser's Go module.
const Module = "github.com/purserpay/purser"

// Unknown is the version of a build that records none.
const Unknown = "devel"

// shownCommit bounds the digits of a commit that are shown.
const shownCommit = 12

// WithCommit adds a commit to a version that does not name it already, as semantic
// versioning has it for what does not count when versions are compared.
func WithCommit(version, commit string) string {
	version, commit = orUnknown(version), commit[:min(shownCommit, len(commit))]
	switch {
	case commit == "" || strings.Contains(version, commit[:min(7, len(commit))]):
		return version
	case strings.Contains(version, "+"):
		return version + "." + commit
	}
	return version + "+" + commit
}

// Version finds purser in a build: as the main module, or as a dependency of a Caddy
// that was built with it.
func Version(info *debug.BuildInfo) string {
	for _, dep := range info.Deps {
		if dep.Path != Module {
			continue
		}
		if dep.Replace != nil {
			dep = dep.Replace
		}
		return orUnknown(dep.Version)
	}
	if info.Main.Path == Module && orUnknown(info.Main.Version) != Unknown {
		return info.Main.Version
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && info.Main.Path == Module:
			revision = s.Value[:min(shownCommit, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return Unknown
	}
	return revision + dirty
}

func orUnknown(v string) string {
	if v == "" || strings.HasPrefix(v, "(") {
		return Unknown
	}
	return v
}
