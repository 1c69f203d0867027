package caddymodule

// No Caddy here: linkers set the version in this package, because builds with xcaddy know no other.

import (
	"cmp"
	"runtime/debug"
	"sync"

	"github.com/purserpay/purser/internal/buildinfo"
)

// Set by the linker (-X) where the build does not record them itself: a version such as
// "v1.2.3", and the commit in hexadecimal.
var buildVersion, buildCommit string

// Version is purser's version and the commit it was built from, as far as they are known:
// a release such as "v1.2.3+0123456789ab", a commit alone, or "devel".
var Version = sync.OnceValue(func() string {
	recorded := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		recorded = buildinfo.Version(info)
	}
	return buildinfo.WithCommit(cmp.Or(buildVersion, recorded), buildCommit)
})
