package cli

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/crate"
	"github.com/purserpay/purser/internal/environment"
)

const (
	storeVariable = "PURSER_STORE"
	storePostgres = "postgres"
	// packedData and packedSecrets are folders in a crate for what is outside of the configuration's folder.
	packedData, packedSecrets = "purser-data", "secrets"
	fileSuffix                = "_FILE" // of a variable that names the file of a secret
)

// packingList names the files that another server needs, apart from the database.
type packingList struct {
	data     string // data directory
	database string // name of the database in the crate
	parts    []crate.Part
	notes    []string // what people must do, or bring, themselves
	packed   []string // paths
}

// packingList looks for what belongs to the purser of a folder. Files below the configuration's folder keep their paths.
func (env *Env) packingList(config, dir, database string) (l packingList, err error) {
	if config == "" && env.Guest == nil {
		config = initCaddyfile
	}
	base, err := filepath.Abs(env.path(filepath.Dir(cmp.Or(config, initCaddyfile))))
	if err != nil {
		return l, err
	}
	if l.data, err = filepath.Abs(env.path(cmp.Or(dir, env.Getenv(dataDirVariable), env.defaultDataDir()))); err != nil {
		return l, err
	}
	data := packedData
	if name := below(base, l.data); name != "" && name != "." {
		data = name
	} else if where := env.Layer.Place(dataDirVariable); where != "" {
		l.note("%s sets %s=%s: put what is in %s there, or change it", where, dataDirVariable, env.Getenv(dataDirVariable), packedData)
	}
	l.database = path.Join(data, filepath.Base(database))
	if name := below(l.data, database); name != "" {
		l.database = path.Join(data, name)
	} else {
		l.note("the database is at %s, and was at %s: set %s, or leave it out", l.database, database, boltPathVariable)
	}
	log := filepath.Join(l.data, startLog) // it stays
	l.packed = []string{database, boltstore.JournalPath(database), log, log + earlierLog}
	if err := l.addFolder(data, l.data); err != nil {
		return l, err
	}
	if err := l.addConfiguration(env, config, base); err != nil {
		return l, err
	}
	l.addSecrets(env, base)
	l.noteVariables(env)
	return l, nil
}

func (l *packingList) note(format string, args ...any) {
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

func (l *packingList) add(name, from string) {
	if !slices.Contains(l.packed, from) {
		l.packed, l.parts = append(l.packed, from), append(l.parts, crate.File(name, from))
	}
}

// addFolder adds the files of a folder, without sockets and what purser has begun to write.
func (l *packingList) addFolder(name, folder string) error {
	return filepath.WalkDir(folder, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		temporary := strings.HasPrefix(entry.Name(), ".") && strings.Contains(entry.Name(), ".temp-")
		if entry.Type().IsRegular() && !temporary {
			l.add(path.Join(name, below(folder, at)), at)
		}
		return nil
	})
}

// addConfiguration adds the configuration, what it imports, and the files of variables.
func (l *packingList) addConfiguration(env *Env, config, base string) error {
	if config == "" {
		l.note("Caddy's configuration and environment are not packed: take them as well")
		return nil
	}
	files := environment.Files(env.path(config))
	variables := env.named
	if len(variables) == 0 {
		var err error
		if variables, err = environment.Beside(env.path(config)); err != nil {
			return err
		}
	}
	for _, from := range append(files, variables...) {
		from, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		if name := below(base, from); name != "" {
			l.add(name, from)
			continue
		}
		l.note("%s is not packed: take it as well", from)
	}
	return nil
}

// addSecrets adds the files that variables name.
func (l *packingList) addSecrets(env *Env, base string) {
	if command := env.Getenv(environment.SecretsCommand); command != "" {
		l.note("the command of %s must be on the new server as well: %s", environment.SecretsCommand, command)
	}
	for _, variable := range environment.Known() {
		file := env.Getenv(variable)
		if environment.ReferenceIn(file) == "file:" {
			l.note("%s names a file that is not packed: %s", variable, file)
		}
		if !strings.HasSuffix(variable, fileSuffix) || file == "" {
			continue
		}
		from, err := filepath.Abs(env.path(file))
		if err == nil {
			_, err = os.Stat(from)
		}
		if err != nil {
			l.note("%s names a file that is not packed: %v", variable, err)
			continue
		}
		if name := below(base, from); name != "" && !filepath.IsAbs(file) {
			l.add(name, from)
			continue
		}
		name := path.Join(packedSecrets, variable)
		l.add(name, from)
		l.note("%s was %s, and is packed as %s: put it there, or change the variable", variable, file, name)
	}
}

// noteVariables names variables of purser that stand in no file.
func (l *packingList) noteVariables(env *Env) {
	added := env.Layer.Added()
	var loose []string
	for _, entry := range env.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(environment.Known(), name) && !slices.Contains(added, name) && name != dataDirVariable {
			loose = append(loose, name)
		}
	}
	if slices.Sort(loose); len(loose) > 0 {
		l.note("set in this shell only, and not packed: %s", strings.Join(loose, ", "))
	}
}

// below returns the path of a file in a folder, with slashes, or "" if it is elsewhere.
func below(folder, file string) string {
	name, err := filepath.Rel(folder, file)
	if err != nil || !filepath.IsLocal(name) {
		return ""
	}
	return filepath.ToSlash(name)
}

func inside(folder, file string) bool { return below(folder, file) != "" }
