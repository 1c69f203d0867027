package buildinfo

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"release", debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v1.2.3"}}, "v1.2.3"},
		{"checkout", debug.BuildInfo{Main: debug.Module{Path: Module, Version: "(devel)"}, Settings: vcs}, "0123456789ab+dirty"},
		{"no version control", debug.BuildInfo{Main: debug.Module{Path: Module, Version: "(devel)"}}, "devel"},
		{"built into a Caddy", debug.BuildInfo{
			Main: debug.Module{Path: "caddy"}, Settings: vcs,
			Deps: []*debug.Module{{Path: Module, Version: "v1.2.3"}},
		}, "v1.2.3"},
		{"replaced by a folder", debug.BuildInfo{
			Main: debug.Module{Path: "caddy"},
			Deps: []*debug.Module{{Path: Module, Version: "v1.2.3", Replace: &debug.Module{Path: "/src"}}},
		}, "devel"},
	} {
		if got := Version(&c.info); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWithCommit(t *testing.T) {
	t.Parallel()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, c := range []struct{ version, commit, want string }{
		{"v1.2.3", commit, "v1.2.3+0123456789ab"},
		{"v1.2.3", "", "v1.2.3"},
		{"v1.2.3+dirty", commit, "v1.2.3+dirty.0123456789ab"},
		{"v1.2.3-4-g0123456-dirty", commit, "v1.2.3-4-g0123456-dirty"},
		{"0123456-dirty", commit, "0123456-dirty"},
		{"devel", commit, "devel+0123456789ab"},
		{"devel", "0123", "devel+0123"},
	} {
		if got := WithCommit(c.version, c.commit); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.version, c.commit, got, c.want)
		}
	}
}
