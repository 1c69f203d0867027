package caddymodule

import (
	"runtime/debug"
	"strings"
	"sync"
)

// modulePath is purser's Go module.
const modulePath = "github.com/purserpay/purser"

// buildVersion is set by the linker (-X) where the build does not record a version itself.
var buildVersion string

// Version is purser's version as the build recorded it: a release such as "v1.2.3", the
// revision it was built from, or "devel".
var Version = sync.OnceValue(func() string {
	if buildVersion != "" {
		return buildVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionFrom(info)
})

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
			revision = s.Value[:min(12, len(s.Value))]
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
