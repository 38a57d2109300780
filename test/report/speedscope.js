// Reads a file with speedscope's own importers: node speedscope.js PACKAGE-FOLDER FILE prints [{name, total, frames: {name: [self, total]}}].
// The package has them only inside of the page's scripts: these are loaded without starting the page.
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [folder, file] = process.argv.slice(2);
const release = path.join(folder, 'dist', 'release');
const script = (prefix) => {
  const name = fs.readdirSync(release).find((n) => n.startsWith(prefix) && n.endsWith('.js'));
  return fs.readFileSync(path.join(release, name), 'utf8').replace(/\},\{\},\[[^\]]*\], null\)/, '},{},[], null)');
};

globalThis.window = globalThis;
globalThis.self = globalThis;
vm.runInThisContext(script('speedscope.'));
const importers = script('import.');
vm.runInThisContext(importers);

// The module that chooses an importer needs all others, so it comes last.
const start = [...importers.matchAll(/"(\w{4})":\[function\(require,module,exports\)/g)].map((m) => m[1]).pop();
const { importProfilesFromArrayBuffer } = parcelRequire(start);

(async () => {
  const bytes = fs.readFileSync(file);
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const group = await importProfilesFromArrayBuffer(path.basename(file), buffer);
  if (!group) throw new Error('speedscope does not know this file');
  const result = group.profiles.map((profile) => {
    const frames = {};
    profile.forEachFrame((f) => {
      const old = frames[f.name] || [0, 0];
      frames[f.name] = [old[0] + f.getSelfWeight(), old[1] + f.getTotalWeight()];
    });
    return { name: profile.getName(), total: profile.getTotalWeight(), frames };
  });
  console.log(JSON.stringify(result));
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
