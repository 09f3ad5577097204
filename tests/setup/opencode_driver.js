// Plays a session of opencode with two copies of the plugin, and prints what each one was told.
import answering from "./answering.js"
import gone from "./gone.js"

async function told(plugin) {
  plugin.setup()
  const hooks = await plugin.server({ directory: process.cwd() })
  const said = async (sessionID, text) => {
    const parts = [{ id: "prt_1", type: "text", text }, { id: "prt_2", type: "text", text: "aside", synthetic: true }]
    await hooks["chat.message"]({ sessionID }, { message: { id: "msg_1" }, parts })
    return parts.slice(2)
  }
  const tool = async (tool, args, output) => {
    const result = { output }
    await hooks["tool.execute.after"]({ tool, sessionID: "a", callID: "c", args }, result)
    return result.output
  }
  const event = (type, properties) => hooks.event({ event: { type, properties } })
  const shown = []
  await event("session.created", { info: { id: "a" } })
  await event("session.created", { info: { id: "b", parentID: "a" } })
  shown.push(await said("a", "one"), await said("a", "two"), await said("b", "inner"), await said("old", "three"))
  shown.push(await tool("read", { filePath: "pay.py" }, "text"), await tool("grep", { pattern: "x" }, "text"))
  shown.push(await tool("read", { filePath: "broken" }, "text"), await tool("bash", { command: "x" }, undefined))
  await hooks["experimental.session.compacting"]({ sessionID: "a" }, { context: [] })
  await event("session.compacted", { sessionID: "a" })
  shown.push(await said("a", "four"))
  for (const id of ["a", "a", "b"]) await event("session.idle", { sessionID: id })
  await event("server.connected", undefined)
  return shown
}
const both = JSON.stringify([await told(answering), await told(gone)])
process.stdout.write(both, () => process.exit()) // the time limit of what never began runs on
