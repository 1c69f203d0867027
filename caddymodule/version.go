package caddymodule

// No Caddy here: linkers set the version in this package, because builds with xcaddy know no other.

import (
	"runtime/debug"
	"strings"
	"sync"
)

// modulePath is purser's Go module.
const modulePath = "github.com/purserpay/purser"

// Set by the linker (-X) where the build does not record them itself: a version such as
// "v1.2.3", and the commit in hexadecimal.
var buildVersion, buildCommit string

// shownCommit bounds the digits of a commit that are shown.
const shownCommit = 12

// Version is purser's version and the commit it was built from, as far as they are known:
// a release such as "v1.2.3+0123456789ab", a commit alone, or "devel".
var Version = sync.OnceValue(func() string {
	v := buildVersion
	if info, ok := debug.ReadBuildInfo(); ok && v == "" {
		v = versionFrom(info)
	}
	return withCommit(orDevel(v), buildCommit)
})

// withCommit adds a commit to a version that does not name it already, as semantic
// versioning has it for what does not count when versions are compared.
func withCommit(version, commit string) string {
	commit = commit[:min(shownCommit, len(commit))]
	switch {
	case commit == "" || strings.Contains(version, commit[:min(7, len(commit))]):
		return version
	case strings.Contains(version, "+"):
		return version + "." + commit
	}
	return version + "+" + commit
}

// versionFrom finds purser in a build: as the main module, or as a dependency of a Caddy
// that was built with it.
func versionFrom(info *debug.BuildInfo) string {
	for _, dep := range info.Deps {
		if dep.Path != modulePath {
			continue
		}
		if dep.Replace != nil {
			dep = dep.Replace
		}
		return orDevel(dep.Version)
	}
	if info.Main.Path == modulePath && orDevel(info.Main.Version) != "devel" {
		return info.Main.Version
	}
	var revision, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && info.Main.Path == modulePath:
			revision = s.Value[:min(shownCommit, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return "devel"
	}
	return revision + dirty
}

func orDevel(v string) string {
	if v == "" || strings.HasPrefix(v, "(") {
		return "devel"
	}
	return v
}
